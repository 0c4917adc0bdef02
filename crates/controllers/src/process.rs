//! Runs the controllers of a process, after its caches have synced.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use karpenter_operator::harness::tasks::Tasks;
use karpenter_operator::harness::{ControllerObserver, Harness, Shutdown};
use karpenter_operator::provider::ProviderWork;
use tracing::{error, info};

use crate::{Context, all, state};

mod readiness;
#[cfg(test)]
mod tests;

pub use readiness::readiness_checks;

/// How often unsynced kinds are logged at the start.
const SYNC_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Starts the watches. Controllers do not run yet: a standby does only this.
pub fn watch(context: &Context, tasks: &Tasks) {
    state::subscribe_mirror(context);
    context.cache.start(tasks);
}

/// Runs all controllers, and those of the provider, until the shutdown begins and running
/// reconciles have ended. Watches have to run, see [`watch`].
pub async fn run(
    context: &Context,
    provider: ProviderWork,
    observer: Arc<dyn ControllerObserver>,
    shutdown: &Shutdown,
    tasks: &Tasks,
) {
    if !wait_for_cache_sync(context, shutdown).await {
        return;
    }
    if let Some(on_elected) = provider.on_elected
        && let Either::Right(_) = select(on_elected, pin!(shutdown.wait())).await
    {
        return;
    }
    let harness = Harness {
        clock: context.clock.clone(),
        rng: context.rng.clone(),
        observer,
        shutdown: shutdown.clone(),
    };
    let mut controllers = all(context);
    controllers.extend(provider.controllers);
    info!(controllers = controllers.len(), "starting controllers");
    let mut running = Vec::new();
    for controller in controllers {
        let (ended, wait) = tokio::sync::oneshot::channel::<()>();
        let (harness, name) = (harness.clone(), controller.name());
        tasks.spawn(name, async move {
            harness.run(controller).await;
            drop(ended);
        });
        running.push(wait);
    }
    for controller in running {
        // The sender is dropped when the controller has ended, in whatever way.
        let _ = controller.await;
    }
}

/// Waits until the cache has synced, and logs unsynced kinds. Returns false if the shutdown begins
/// before.
async fn wait_for_cache_sync(context: &Context, shutdown: &Shutdown) -> bool {
    let remind = async {
        loop {
            context.clock.sleep(SYNC_LOG_INTERVAL).await;
            // An API server that does not answer is one cause for all kinds.
            let mut kinds: BTreeMap<String, Vec<&str>> = BTreeMap::new();
            for (kind, error) in context.cache.unsynced_kinds() {
                let why = error.unwrap_or_else(|| "no answer yet".to_owned());
                kinds.entry(why).or_default().push(kind);
            }
            for (why, kinds) in kinds {
                error!(
                    kind = kinds.join(", "),
                    error = why,
                    "waiting for lists of objects; is the API server there, are the CRDs installed, and may we list them?"
                );
            }
        }
    };
    let (listed, remind) = (pin!(context.cache.wait_for_sync(&context.clock)), pin!(remind));
    let listed = select(listed, remind);
    !matches!(select(listed, pin!(shutdown.wait())).await, Either::Right(_))
}
