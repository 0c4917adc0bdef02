//! The product in a world: a process that can die and be started again.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use karpenter_operator::harness::spawn::Tasks;

use super::World;

/// Starts the product's tasks, each time with nothing in its memory. They take
/// [`World::product_client`] and [`World::cloud`], and end with the tasks.
pub type StartProduct = Arc<dyn Fn(&World, &Tasks) + Send + Sync>;

/// The product's process. Clones are the same.
#[derive(Clone)]
pub struct Product {
    begin: StartProduct,
    running: Arc<Mutex<Tasks>>,
}

impl Product {
    pub(super) fn new(begin: StartProduct) -> Self {
        Self { begin, running: Arc::default() }
    }

    /// Starts a process; the one that ran before is stopped first, by whoever restarts it.
    pub(super) fn start(&self, world: &World) {
        let tasks = Tasks::new();
        *self.lock() = tasks.clone();
        (self.begin)(world, &tasks);
    }

    pub(super) async fn stop(&self) {
        let running = self.lock().clone();
        running.stop().await;
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
