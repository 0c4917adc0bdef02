//! Tests of the Deployment controller's decisions: rollouts, scaling, revisions and conditions.

use k8s_openapi::api::apps::v1::DeploymentCondition;
use serde_json::{Value, json};

use super::*;
use crate::workloads::pods::TEMPLATE_HASH;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// A Deployment of this size and image, with more fields of its spec.
fn deployment(replicas: i32, image: &str, more: &Value) -> Deployment {
    let mut spec = json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "x"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": template(image),
        "progressDeadlineSeconds": 600,
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "metadata": {"name": "d", "namespace": "n", "uid": "d", "generation": 1},
        "spec": spec,
    }))
    .unwrap()
}

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    })
}

/// A ReplicaSet of an image (its name too) with a size and so many available pods, of a
/// Deployment of the size `desired` with one pod too many allowed.
fn set(image: &str, revision: i64, size: i32, available: i32, desired: i32) -> Arc<ReplicaSet> {
    let mut template = template(image);
    template["metadata"]["labels"][TEMPLATE_HASH] = image.into();
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {
                "name": image, "namespace": "n", "generation": 1,
                "creationTimestamp": format!("1970-01-01T00:00:{revision:02}Z"),
                "annotations": {
                    revision::REVISION: revision.to_string(),
                    "deployment.kubernetes.io/desired-replicas": desired.to_string(),
                    "deployment.kubernetes.io/max-replicas": (desired + 1).to_string(),
                },
            },
            "spec": {"replicas": size, "selector": {}, "template": template},
            "status": {
                "replicas": size, "readyReplicas": available, "availableReplicas": available,
                "observedGeneration": 1,
            },
        }))
        .unwrap(),
    )
}

fn sizes(decision: &Decision) -> Vec<(String, i32)> {
    let updated = decision.update.iter();
    let mut sizes: Vec<_> =
        updated.map(|set| (set.metadata.name.clone().unwrap(), spec_replicas(set))).collect();
    sizes.extend(decision.create.iter().map(|set| ("created".to_owned(), spec_replicas(set))));
    sizes
}

fn decided(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> Decision {
    decide(deployment, sets, false, at(100)).unwrap()
}

fn condition<'a>(status: &'a DeploymentStatus, kind: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// Name, replicas, strategy, ReplicaSets, and the sizes that change.
type Case<'a> = (&'a str, i32, &'a Value, Vec<Arc<ReplicaSet>>, &'a [(&'a str, i32)]);

#[test]
fn each_rollout_step_respects_surge_and_unavailability() {
    let limits = |surge: Value, missing: Value| {
        json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {
            "maxSurge": surge, "maxUnavailable": missing,
        }}})
    };
    let surge_one = limits(json!(1), json!(0));
    let lose_one = limits(json!(0), json!(1));
    let none = limits(json!(0), json!(0));
    let recreate = json!({"strategy": {"type": "Recreate"}});
    let quarter = limits(json!("25%"), json!("25%"));
    #[rustfmt::skip]
    let cases: [Case<'_>; 15] = [
        ("the first is made whole", 6, &surge_one, vec![], &[("created", 6)]),
        ("one too many is made", 6, &surge_one, vec![set("a", 1, 6, 6, 6)], &[("created", 1)]),
        ("it is waited for", 6, &surge_one, vec![set("a", 1, 6, 6, 6), set("b", 2, 1, 0, 6)], &[]),
        ("then an old one goes", 6, &surge_one, vec![set("a", 1, 6, 6, 6), set("b", 2, 1, 1, 6)], &[("a", 5)]),
        ("then the new one grows", 6, &surge_one, vec![set("a", 1, 5, 5, 6), set("b", 2, 1, 1, 6)], &[("b", 2)]),
        ("the last old one goes", 6, &surge_one, vec![set("a", 1, 1, 1, 6), set("b", 2, 6, 6, 6)], &[("a", 0)]),
        ("nothing is left to do", 6, &surge_one, vec![set("a", 1, 0, 0, 6), set("b", 2, 6, 6, 6)], &[]),
        ("without surge an old one goes first", 6, &lose_one, vec![set("a", 1, 6, 6, 6), set("b", 2, 0, 0, 6)], &[("a", 5)]),
        ("limits of zero still move", 6, &none, vec![set("a", 1, 6, 6, 6), set("b", 2, 0, 0, 6)], &[("a", 5)]),
        ("shares are rounded: 2 more of 6", 6, &quarter, vec![set("a", 1, 6, 6, 6)], &[("created", 2)]),
        ("shares are rounded: 1 less of 6", 6, &quarter, vec![set("a", 1, 6, 6, 6), set("b", 2, 2, 0, 6)], &[("a", 5)]),
        ("those that do not work go first", 6, &surge_one, vec![set("a", 1, 2, 0, 6), set("a2", 2, 4, 4, 6), set("b", 3, 1, 1, 6)], &[("a", 1)]),
        ("recreate ends the old ones", 6, &recreate, vec![set("a", 1, 6, 6, 6)], &[("a", 0)]),
        ("recreate makes the new one then", 6, &recreate, vec![set("a", 1, 0, 0, 6)], &[("created", 6)]),
        ("to zero", 0, &surge_one, vec![set("b", 1, 6, 6, 6)], &[("b", 0)]),
    ];
    for (case, replicas, more, sets, expected) in cases {
        let found = sizes(&decided(&deployment(replicas, "b", more), &sets));
        let expected: Vec<_> =
            expected.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn recreate_waits_until_all_old_pods_have_ended() {
    let deployment = deployment(6, "b", &json!({"strategy": {"type": "Recreate"}}));
    let decision = decide(&deployment, &[set("a", 1, 0, 0, 6)], true, at(100)).unwrap();
    assert!(decision.create.is_none());
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let paused = deployment(8, "b", &json!({"paused": true}));
    let decision = decided(&paused, &[set("a", 1, 6, 6, 6)]);
    assert_eq!(sizes(&decision), [("a".to_owned(), 8)]);
    let progressing = condition(&decision.status, "Progressing").unwrap();
    assert_eq!(progressing.reason.as_deref(), Some("DeploymentPaused"));
}

#[test]
fn scaling_during_a_rollout_keeps_the_proportions() {
    let sets = [set("a", 1, 8, 8, 10), set("b", 2, 3, 3, 10)];
    let found = sizes(&decided(&deployment(20, "b", &json!({})), &sets));
    assert_eq!(found, [("a".to_owned(), 15), ("b".to_owned(), 6)]);
    let found = sizes(&decided(&deployment(5, "b", &json!({})), &sets));
    assert_eq!(found, [("a".to_owned(), 4), ("b".to_owned(), 2)]);
}

#[test]
fn a_rollback_reuses_the_replica_set_with_a_new_revision() {
    let sets = [set("a", 1, 0, 0, 6), set("b", 2, 6, 6, 6)];
    let decision = decided(&deployment(6, "a", &json!({})), &sets);
    assert_eq!(sizes(&decision), [("a".to_owned(), 1)]);
    let annotations = decision.update[0].metadata.annotations.clone().unwrap();
    assert_eq!(annotations[revision::REVISION], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(decision.revision.as_deref(), Some("3"));
}

#[test]
fn old_replica_sets_beyond_the_history_limit_are_deleted() {
    let sets =
        [set("a", 1, 0, 0, 6), set("b", 2, 0, 0, 6), set("c", 3, 0, 0, 6), set("d", 4, 6, 6, 6)];
    let limit = json!({"revisionHistoryLimit": 1});
    let decision = decided(&deployment(6, "d", &limit), &sets);
    assert_eq!(decision.delete, ["a", "b"]);
    let sets = [set("a", 1, 0, 0, 6), set("b", 2, 0, 0, 6), set("d", 4, 6, 5, 6)];
    assert_eq!(decided(&deployment(6, "d", &limit), &sets).delete, [""; 0], "still rolling");
}

#[test]
fn the_new_replica_set_selects_its_own_pods_only() {
    let mut deployment = deployment(6, "b", &json!({}));
    deployment.metadata.annotations = Some(
        [("a".to_owned(), "1".to_owned()), (revision::REVISION.to_owned(), "9".to_owned())].into(),
    );
    let set = decided(&deployment, &[]).create.unwrap();
    let spec = set.spec.clone().unwrap();
    let labels = spec.template.unwrap().metadata.unwrap().labels.unwrap();
    assert_eq!(spec.selector.match_labels, Some(labels.clone()));
    assert_eq!(set.metadata.name, Some(format!("d-{}", labels[TEMPLATE_HASH])));
    let annotations = set.metadata.annotations.unwrap();
    assert_eq!((annotations["a"].as_str(), annotations[revision::REVISION].as_str()), ("1", "1"));
    assert_eq!(set.metadata.owner_references.unwrap()[0].uid, "d");
}

#[test]
fn conditions_report_the_progress_of_the_rollout() {
    let mut deployment = deployment(6, "b", &json!({}));
    let first = decided(&deployment, &[]);
    let progressing = condition(&first.status, "Progressing").unwrap();
    assert_eq!(progressing.reason.as_deref(), Some("NewReplicaSetCreated"));
    assert_eq!(condition(&first.status, "Available").unwrap().status, "False");
    assert_eq!(first.status.unavailable_replicas, Some(6));
    assert_eq!(first.requeue_at, Some(at(100 + 601)));

    deployment.status = Some(first.status);
    let half = decide(&deployment, &[set("b", 1, 6, 3, 6)], false, at(200)).unwrap();
    let progressing = condition(&half.status, "Progressing").unwrap();
    assert_eq!(progressing.reason.as_deref(), Some("ReplicaSetUpdated"));
    assert_eq!(progressing.last_update_time.as_ref().unwrap().0, at(200));
    assert_eq!(progressing.last_transition_time.as_ref().unwrap().0, at(100));

    deployment.status = Some(half.status);
    let stuck = decide(&deployment, &[set("b", 1, 6, 3, 6)], false, at(801)).unwrap();
    let progressing = condition(&stuck.status, "Progressing").unwrap();
    assert_eq!(progressing.reason.as_deref(), Some("ProgressDeadlineExceeded"));
    assert_eq!((progressing.status.as_str(), stuck.requeue_at), ("False", None));

    deployment.status = Some(stuck.status);
    let whole = decide(&deployment, &[set("b", 1, 6, 6, 6)], false, at(900)).unwrap();
    let progressing = condition(&whole.status, "Progressing").unwrap();
    assert_eq!(progressing.reason.as_deref(), Some("NewReplicaSetAvailable"));
    assert_eq!(
        progressing.message.as_deref(),
        Some("ReplicaSet \"b\" has successfully progressed.")
    );
    assert_eq!(condition(&whole.status, "Available").unwrap().status, "True");

    deployment.status = Some(whole.status.clone());
    deployment.metadata.annotations =
        Some([(revision::REVISION.to_owned(), "1".to_owned())].into());
    let rest = decide(&deployment, &[set("b", 1, 6, 6, 6)], false, at(5000)).unwrap();
    assert_eq!(rest.status, whole.status, "nothing changes by itself");
    assert!(rest.update.is_empty() && rest.revision.is_none() && rest.requeue_at.is_none());
}
