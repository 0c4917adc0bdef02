//! `nodepool.readiness`: reports whether the NodeClass of a pool can be used (spec 40 §4.3).

use karpenter_api::condition_set::Status;
use karpenter_api::nodepool::NodePool;
use karpenter_api::{conditions, reasons};
use karpenter_operator::harness::{Controller, Outcome, Reconcile, ReconcileResult};
use karpenter_operator::provider::NodeClass;
use karpenter_operator::watch::ObjectKey;

use crate::Context;

pub(super) fn controller(context: &Context) -> Controller {
    let readiness = ReadinessReconciler { context: context.clone() };
    let controller = Controller::new("nodepool.readiness", &context.clock, readiness)
        .for_kind("karpenter.sh", "NodePool")
        .workers(context.workers(10, 1000))
        .watch(&context.cache.node_pools);
    super::watch_node_classes(controller, context)
}

struct ReadinessReconciler {
    context: Context,
}

impl Reconcile for ReadinessReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> ReconcileResult {
        let context = &self.context;
        let pool = context.cache.node_pools.get("", &key.name);
        let Some(pool) = pool.filter(|pool| context.manages_pool(pool)) else {
            return Ok(Outcome::Done);
        };
        let class = context.cache.node_class(&pool.spec.template.spec.node_class_ref);
        let mut after = NodePool::clone(&pool);
        let mut set = after.condition_set(context.clock.now());
        match readiness(class.as_ref()) {
            Ok(()) => set.set_true(conditions::NODE_CLASS_READY),
            Err((reason, message)) => {
                set.set(conditions::NODE_CLASS_READY, Status::False, &reason, &message)
            }
        };
        super::patch_conditions(context, &pool, &after).await
    }
}

/// Whether the class can be used, or the reason and the message that say why not.
fn readiness(class: Option<&NodeClass>) -> Result<(), (String, String)> {
    let no = |reason: &str, message: &str| Err((reason.to_owned(), message.to_owned()));
    let Some(class) = class else {
        return no(reasons::nodepool::NODE_CLASS_NOT_FOUND, "NodeClass not found on cluster");
    };
    if class.metadata.deletion_timestamp.is_some() {
        return no(reasons::nodepool::NODE_CLASS_TERMINATING, "NodeClass is Terminating");
    }
    match class.ready() {
        Some(ready) if ready.status == "True" => Ok(()),
        Some(ready) if ready.status == "False" => no(&ready.reason, &ready.message),
        _ => no(reasons::nodepool::NODE_CLASS_READINESS_UNKNOWN, "Node Class Readiness Unknown"),
    }
}

#[cfg(test)]
mod tests {
    use karpenter_operator::testing::TestNodeClass;
    use serde_json::{Value, json};

    use super::*;

    fn class(deleting: bool, ready: &Value) -> NodeClass {
        let mut meta = json!({"name": "default"});
        if deleting {
            meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let object = json!({"metadata": meta, "status": {"conditions": ready}});
        NodeClass::of(&serde_json::from_value::<TestNodeClass>(object).unwrap())
    }

    #[test]
    fn a_pool_is_ready_when_its_class_is() {
        let ready = |status: &str| {
            json!([{"type": "Ready", "status": status, "reason": "Why", "message": "why",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}])
        };
        let cases = [
            ("40/NP-09 not found", None, Err("NodeClassNotFound: NodeClass not found on cluster")),
            (
                "40/NP-09 deleting",
                Some(class(true, &ready("True"))),
                Err("NodeClassTerminating: NodeClass is Terminating"),
            ),
            (
                "40/NP-09 unknown",
                Some(class(false, &ready("Unknown"))),
                Err("NodeClassReadinessUnknown: Node Class Readiness Unknown"),
            ),
            (
                "40/NP-09 absent",
                Some(class(false, &json!([]))),
                Err("NodeClassReadinessUnknown: Node Class Readiness Unknown"),
            ),
            ("40/NP-09 false", Some(class(false, &ready("False"))), Err("Why: why")),
            ("40/NP-09 true", Some(class(false, &ready("True"))), Ok(())),
        ];
        for (case, class, expected) in cases {
            let found = readiness(class.as_ref());
            let found = found.map_err(|(reason, message)| format!("{reason}: {message}"));
            assert_eq!(found.as_ref().map_err(String::as_str).copied(), expected, "{case}");
        }
    }
}
