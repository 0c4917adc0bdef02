//! Starts the product as it ships: every controller, on the world's API, cloud and clock.

use std::sync::Arc;

use karpenter_controllers::{Context, Dependencies, process};
use karpenter_operator::cloud::MetricsDecorator;
use karpenter_operator::compute::Inline;
use karpenter_operator::events::EventRecorder;
use karpenter_operator::harness::{
    ControllerObserver, ReconcileEnd, ReconcileStart, ReconcileStatus, Shutdown, WorkObserver,
};
use karpenter_operator::metrics::{Metrics, MetricsConfig};
use karpenter_operator::options::Options;
use karpenter_operator::provider::ProviderWork;

use super::ProductStarter;
use super::product::Panics;

/// Starts all controllers with these options. The executor is `Inline`, so that a world on one
/// thread repeats. There is no lease: a world has one process.
pub fn controllers(options: Options) -> ProductStarter {
    let options = Arc::new(options);
    Arc::new(move |world, tasks| {
        let (clock, client) = (world.clock.clone(), world.product_client());
        let config = MetricsConfig::for_provider(&world.provider, &world.cloud.provider_labels());
        let metrics = Metrics::new(clock.clone(), &config);
        let metered = MetricsDecorator::new(world.cloud.clone(), metrics.clone(), clock.clone());
        let dependencies = Dependencies {
            client: client.clone(),
            clock: clock.clone(),
            rng: Arc::new(world.rng.fork("product")),
            provider: world.provider.clone(),
            repair_policies: world.repair_policies.clone(),
            options: options.clone(),
            metrics: Arc::new(metrics.clone()),
            events: EventRecorder::start(client, clock, tasks),
            executor: Arc::new(Inline),
        };
        let context = Context::new(dependencies, Arc::new(metered));
        process::watch(&context, tasks);
        let running = tasks.clone();
        let observer = Arc::new(Observer { metrics, panics: world.product.counter() });
        tasks.spawn("product", async move {
            let work = ProviderWork::default();
            process::run(&context, work, observer, &Shutdown::new(), &running).await;
        });
    })
}

/// Counts panics beside the metrics.
#[derive(Debug)]
struct Observer {
    metrics: Metrics,
    panics: Arc<Panics>,
}

impl ControllerObserver for Observer {
    fn controller_started(
        &self,
        controller: &'static str,
        workers: usize,
    ) -> Arc<dyn WorkObserver> {
        let metrics = self.metrics.controller_started(controller, workers);
        Arc::new(PanicCountingObserver { metrics, panics: self.panics.clone() })
    }
}

#[derive(Debug)]
struct PanicCountingObserver {
    metrics: Arc<dyn WorkObserver>,
    panics: Arc<Panics>,
}

impl WorkObserver for PanicCountingObserver {
    fn keys_added(&self, count: usize) {
        self.metrics.keys_added(count);
    }

    fn key_delayed(&self) {
        self.metrics.key_delayed();
    }

    fn reconcile_started(&self, begun: ReconcileStart) {
        self.metrics.reconcile_started(begun);
    }

    fn reconcile_finished(&self, ended: ReconcileEnd, active: usize) {
        if ended.status == ReconcileStatus::Panic {
            self.panics.add(1);
        }
        self.metrics.reconcile_finished(ended, active);
    }
}
