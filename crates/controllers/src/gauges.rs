//! Loops that only publish numbers (spec 40 §8.1, §8.2). None of them runs with
//! `--disable-cluster-state-observability`.
//!
//! They follow events, and update series that only change with time without reading any object: an
//! idle cluster costs next to nothing.

mod node;
mod nodepool;
mod pod;
mod status;

use karpenter_core::resources::Quantity;
use karpenter_operator::harness::Controller;

use crate::Context;

/// All of them.
pub(crate) fn all(context: &Context) -> Vec<Controller> {
    if context.options.disable_cluster_state_observability {
        return Vec::new();
    }
    let mut all =
        vec![pod::controller(context), node::controller(context), nodepool::controller(context)];
    all.extend(status::controllers(context));
    all
}

/// Returns an amount as a gauge value: CPU in cores, others in whole units.
#[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
fn gauge_value(resource: &str, amount: Quantity) -> f64 {
    if resource == "cpu" { amount.millis() as f64 / 1000.0 } else { amount.units() as f64 }
}

#[cfg(test)]
mod tests {
    use karpenter_operator::options::{FeatureGates, Gate, Options};

    use super::*;
    use crate::testing::Bench;

    async fn names(options: Options) -> Vec<&'static str> {
        let bench = Bench::with_options(options).await;
        all(&bench.context).iter().map(Controller::name).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn options_decide_which_gauge_controllers_run() {
        let mut options = Options::default();
        let most = [
            "metrics.pod",
            "metrics.node",
            "metrics.nodepool",
            "operatorpkg.nodeclaim.status",
            "operatorpkg.nodepool.status",
            "operatorpkg.node.status",
            "operatorpkg.testnodeclass.status",
        ];
        assert_eq!(names(options.clone()).await, most);
        options.feature_gates = FeatureGates::default().with_gate(Gate::CapacityBuffer, true);
        let with_buffers = names(options.clone()).await;
        assert_eq!(with_buffers.last(), Some(&"operatorpkg.capacitybuffer.status"));
        options.disable_cluster_state_observability = true;
        assert!(names(options).await.is_empty(), "40/OB-18");
    }

    #[test]
    fn cpu_is_shown_in_cores() {
        let amount = Quantity::from_millis(1_500);
        assert!((gauge_value("cpu", amount) - 1.5).abs() < f64::EPSILON);
        assert!((gauge_value("memory", amount) - 2.0).abs() < f64::EPSILON, "rounded up");
    }
}
