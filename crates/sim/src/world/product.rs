//! Runs the product in a world, as a process that can be killed and started again.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use karpenter_operator::harness::tasks::Tasks;

use super::World;

/// Starts the product's tasks, each time with empty memory.
/// They take [`World::product_client`] and [`World::cloud`], and end with the tasks.
pub type ProductStarter = Arc<dyn Fn(&World, &Tasks) + Send + Sync>;

/// The product's process. Clones are the same.
#[derive(Clone)]
pub struct Product {
    begin: ProductStarter,
    running: Arc<Mutex<Tasks>>,
    panics: Arc<Panics>,
}

/// Counts the panics of all processes so far.
#[derive(Debug, Default)]
pub(super) struct Panics(AtomicU64);

impl Panics {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

impl Product {
    pub(super) fn new(begin: ProductStarter) -> Self {
        Self { begin, running: Arc::default(), panics: Arc::default() }
    }

    /// Starts a process; the caller has stopped the one that ran before.
    pub(super) fn start(&self, world: &World) {
        let tasks = Tasks::new();
        *self.lock() = tasks.clone();
        (self.begin)(world, &tasks);
    }

    pub(super) async fn stop(&self) {
        let running = self.lock().clone();
        running.stop().await;
        self.panics.add(running.panic_count());
    }

    pub(super) fn panics(&self) -> u64 {
        self.panics.0.load(Ordering::Relaxed)
    }

    /// Where panics of reconciles are counted, which end nothing.
    pub(super) fn counter(&self) -> Arc<Panics> {
        Arc::clone(&self.panics)
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Product").field(&*self.lock()).finish()
    }
}
