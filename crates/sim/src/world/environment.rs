//! The time and chance of the world, as the API takes them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_apiserver::environment::Environment;
use karpenter_operator::clock::Clock;
use karpenter_operator::rng::SeededRng;

#[derive(Debug)]
pub(super) struct SimulatedEnvironment {
    clock: Arc<dyn Clock>,
    rng: Mutex<SeededRng>,
}

impl SimulatedEnvironment {
    pub(super) fn new(clock: Arc<dyn Clock>, rng: &SeededRng) -> Self {
        Self { clock, rng: Mutex::new(rng.fork("api")) }
    }
}

impl Environment for SimulatedEnvironment {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.clock.sleep(duration)
    }

    fn random(&self) -> u128 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).u128()
    }
}
