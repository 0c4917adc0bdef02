//! The product as it ships: every controller, on the world's API, cloud and clock.

use std::sync::Arc;

use karpenter_controllers::{Context, Ports, process};
use karpenter_operator::cloud::Metered;
use karpenter_operator::devices::NoSelectors;
use karpenter_operator::events::Recorder;
use karpenter_operator::harness::{Begun, Ended, Finished, Observe, ObserveWork, Shutdown};
use karpenter_operator::metrics::{Metrics, MetricsConfig};
use karpenter_operator::options::Options;
use karpenter_operator::think::OnTheSpot;

use super::StartProduct;
use super::product::Panics;

/// Starts all controllers with these options. Decisions are made on the spot, so that a world on one
/// thread repeats. There is no lease: a world has one process.
pub fn controllers(options: Options) -> StartProduct {
    let options = Arc::new(options);
    Arc::new(move |world, tasks| {
        let (clock, client) = (world.clock.clone(), world.product_client());
        let metrics = Metrics::new(clock.clone(), &MetricsConfig::of(world.cloud.as_ref()));
        let metered = Metered::new(world.cloud.clone(), metrics.clone(), clock.clone());
        let context = Context::new(Ports {
            client: client.clone(),
            clock: clock.clone(),
            chance: Arc::new(world.chance.fork("product")),
            cloud: Arc::new(metered),
            options: options.clone(),
            metrics: Arc::new(metrics.clone()),
            events: Recorder::start(client, clock, tasks),
            thinker: Arc::new(OnTheSpot),
            // The scheduler of a world knows no devices.
            device_selectors: Arc::new(NoSelectors),
        });
        process::watch(&context, tasks);
        let running = tasks.clone();
        let observer = Arc::new(Observer { metrics, panics: world.product.counter() });
        tasks.spawn("product", async move {
            process::run(&context, observer, &Shutdown::new(), &running).await;
        });
    })
}

/// Counts panics beside the metrics.
#[derive(Debug)]
struct Observer {
    metrics: Metrics,
    panics: Arc<Panics>,
}

impl Observe for Observer {
    fn started(&self, controller: &'static str, workers: usize) -> Arc<dyn ObserveWork> {
        let metrics = self.metrics.started(controller, workers);
        Arc::new(Work { metrics, panics: self.panics.clone() })
    }
}

#[derive(Debug)]
struct Work {
    metrics: Arc<dyn ObserveWork>,
    panics: Arc<Panics>,
}

impl ObserveWork for Work {
    fn added(&self, count: usize) {
        self.metrics.added(count);
    }

    fn retried(&self) {
        self.metrics.retried();
    }

    fn taken(&self, begun: Begun) {
        self.metrics.taken(begun);
    }

    fn finished(&self, ended: Ended, active: usize) {
        if ended.how == Finished::Panic {
            self.panics.add(1);
        }
        self.metrics.finished(ended, active);
    }
}
