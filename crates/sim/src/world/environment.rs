//! The time and chance of the world, as the API takes them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_apiserver::environment::Environment;
use karpenter_operator::chance::Chance;
use karpenter_operator::clock::Clock;

#[derive(Debug)]
pub(super) struct ClockAndChance {
    clock: Arc<dyn Clock>,
    chance: Mutex<Chance>,
}

impl ClockAndChance {
    pub(super) fn new(clock: Arc<dyn Clock>, chance: &Chance) -> Self {
        Self { clock, chance: Mutex::new(chance.fork("api")) }
    }
}

impl Environment for ClockAndChance {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.clock.sleep(duration)
    }

    fn random(&self) -> u128 {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).u128()
    }
}
