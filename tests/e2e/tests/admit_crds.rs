//! Tests the admission of custom resources by the real API server.

use anyhow::Result;
use karpenter_e2e::{Parts, SharedControlPlane, parse_manifest};
use serde_json::json;

static CONTROL_PLANE: SharedControlPlane = SharedControlPlane::new(Parts::API);

/// A kind with a default, a rule, a rule on changes, and a status of its own.
const WIDGETS: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.e2e.test}
spec:
  group: e2e.test
  names: {kind: Widget, plural: widgets}
  scope: Cluster
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              x-kubernetes-validations:
                - {rule: 'self.size < 10', message: too big}
                - {rule: 'self.colour == oldSelf.colour', message: colour is immutable}
              properties:
                size: {type: integer, default: 3}
                colour: {type: string, default: red}
            status:
              type: object
              properties:
                phase: {type: string, enum: [Up, Down]}
";

#[tokio::test]
async fn errors_of_the_api_server_are_returned_verbatim() -> Result<()> {
    let plane = CONTROL_PLANE.get().await?;
    let names = plane.apply_crds(WIDGETS).await?;
    assert_eq!(names, ["customresourcedefinition.apiextensions.k8s.io/widgets.e2e.test"]);
    let objects = plane.objects()?;
    let widget =
        parse_manifest("{apiVersion: e2e.test/v1, kind: Widget, metadata: {name: w}, spec: {}}");

    let mut big = widget.clone();
    big["spec"]["size"] = json!(10);
    let refused = objects.create(&big).await.unwrap_err();
    assert_eq!(refused.code, Some(422));
    let message = "Widget.e2e.test \"w\" is invalid: spec: Invalid value: too big";
    assert_eq!(refused.message, message);

    let created = objects.create(&widget).await?;
    assert_eq!(created["spec"], json!({"colour": "red", "size": 3}), "defaults");

    let mut changed = created.clone();
    changed["spec"]["colour"] = json!("blue");
    let refused = objects.update(&changed).await.unwrap_err();
    assert!(refused.message.ends_with("colour is immutable"), "{refused}");

    let mut status = widget.clone();
    status["status"] = json!({"phase": "Sideways"});
    let refused = objects.update_status(&status).await.unwrap_err();
    let message =
        "status.phase: Unsupported value: \"Sideways\": supported values: \"Up\", \"Down\"";
    assert!(refused.message.contains(message), "{refused}");
    status["status"]["phase"] = json!("Up");
    objects.update_status(&status).await?;
    assert_eq!(objects.get(&widget).await?["status"]["phase"], "Up");

    objects.delete(&widget).await?;
    assert_eq!(objects.get(&widget).await.unwrap_err().code, Some(404));
    Ok(())
}

/// A CRD that breaks the API server's own limits, such as the cost of its rules, is no CRD.
#[tokio::test]
async fn applying_a_rejected_crd_is_an_error() -> Result<()> {
    let broken =
        WIDGETS.replace("widgets", "gadgets").replace("self.size < 10", "self.weight < 10");
    let error = CONTROL_PLANE.get().await?.apply_crds(&broken).await.unwrap_err().to_string();
    assert!(error.contains("undefined field 'weight'"), "{error}");
    Ok(())
}
