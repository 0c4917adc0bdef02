//! Tests of pods that request devices, with `--ignore-dra-requests=false`.

use super::*;

/// Two devices that every node can reach.
const DEVICES: &str = "
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice}
spec:
  driver: gpu.example.com
  pool: {name: shared, generation: 1, resourceSliceCount: 1}
  allNodes: true
  devices:
  - name: small
    attributes: {model: {string: a10}, version: {version: 1.2.0}}
    capacity: {memory: {value: 16Gi}}
  - name: large
    attributes: {model: {string: h100}, version: {version: 2.0.0}, fabric.example.com/ready: {bool: true}}
    capacity: {memory: {value: 80Gi}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: device.driver == 'gpu.example.com'}}]}
";

/// Returns a pod with its own ResourceClaim that has a selector.
fn pod_with_device_claim(name: &str, expression: &str) -> String {
    format!(
        r#"---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}}}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu
        selectors: [{{cel: {{expression: "{expression}"}}}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  resourceClaims: [{{name: gpu, resourceClaimName: {name}}}]
  containers: [{{name: c, resources: {{requests: {{cpu: 1}}, claims: [{{name: gpu}}]}}}}]
"#
    )
}

/// Returns the error of the only pod, or `Ok` if it is placed.
#[track_caller]
fn plan_pod_with_selector(expression: &str) -> Result<(), String> {
    let text = format!("{POOL}---{DEVICES}{}", pod_with_device_claim("pod", expression));
    let args = ["-f", "-", "-o", "json", "--ignore-dra-requests=false"];
    let ran = plan(&scenarios(), &args, text);
    assert_eq!(ran.stderr, "", "{ran:?}");
    let report = ran.json();
    if let Some(error) = report["errors"]["default/pod"].as_str() {
        return Err(error.to_owned());
    }
    assert_eq!(report["pods"], 1, "{ran:?}");
    Ok(())
}

#[test]
fn selectors_of_classes_and_claims_choose_devices() {
    for expression in [
        "device.attributes['gpu.example.com'].model == 'h100'",
        "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('40Gi'))",
        "device.attributes['gpu.example.com'].version.isGreaterThan(semver('1.9.0'))",
        "'fabric.example.com' in device.attributes && device.attributes['fabric.example.com'].ready",
        "cel.bind(own, device.attributes['gpu.example.com'], own.model.startsWith('a'))",
        "!device.allowMultipleAllocations",
    ] {
        assert_eq!(plan_pod_with_selector(expression), Ok(()), "{expression}");
    }
    for expression in [
        "device.attributes['gpu.example.com'].model == 'b200'",
        "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('81Gi'))",
        "device.driver == 'other.example.com'",
    ] {
        assert!(plan_pod_with_selector(expression).is_err(), "{expression}");
    }
}

#[test]
fn a_device_is_allocated_to_one_claim() {
    let large = "device.attributes['gpu.example.com'].model == 'h100'";
    let text = format!(
        "{POOL}---{DEVICES}{}{}",
        pod_with_device_claim("a", large),
        pod_with_device_claim("b", large)
    );
    let args = ["-f", "-", "-o", "json", "--ignore-dra-requests=false"];
    let report = plan(&scenarios(), &args, text).json();
    assert_eq!(report["pods"], 1, "{report}");
    assert_eq!(report["errors"].as_object().unwrap().len(), 1, "{report}");
}

#[test]
fn invalid_selectors_are_reported() {
    let error = plan_pod_with_selector("device.nonsense == 1").unwrap_err();
    assert!(error.contains("undefined field 'nonsense'"), "{error}");
}

#[test]
fn selectors_without_a_value_are_reported() {
    let missing = "device.attributes['gpu.example.com'].nonsense == 1";
    let text = format!("{POOL}---{DEVICES}{}", pod_with_device_claim("pod", missing));
    let ran = plan(&scenarios(), &["-f", "-", "--ignore-dra-requests=false"], text);
    assert_eq!(ran.code, 1);
    let report = "ResourceClaim default/pod: selector \"device.attributes['gpu.example.com'].nonsense \
                == 1\" has no value for some devices: no such key: nonsense";
    assert!(ran.stdout.contains(report), "{}", ran.stdout);
}

#[test]
fn pods_with_devices_are_ignored_by_default() {
    let text = format!("{POOL}---{DEVICES}{}", pod_with_device_claim("pod", "true"));
    let ran = plan(&scenarios(), &["-f", "-"], text);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("-> plan with --ignore-dra-requests=false"), "{}", ran.stdout);
}
