//! How long a decision may go on, without a clock.

use std::fmt;

/// Asked at fixed points (before each attempt to place a pod, and before each reason is worked out)
/// whether to go on. Production answers
/// from a deadline, tests from a counter. Once it said no it is not asked again.
pub struct Fuel<'a> {
    may_go_on: Box<dyn FnMut() -> bool + 'a>,
    is_dry: bool,
}

impl<'a> Fuel<'a> {
    /// Never runs dry.
    pub fn unlimited() -> Self {
        Self::asking(|| true)
    }

    /// Says yes so many times.
    pub fn steps(mut steps: u64) -> Self {
        Self::asking(move || {
            let is_left = steps > 0;
            steps = steps.saturating_sub(1);
            is_left
        })
    }

    /// Runs dry when `may_go_on` first says no.
    pub fn asking(may_go_on: impl FnMut() -> bool + 'a) -> Self {
        Self { may_go_on: Box::new(may_go_on), is_dry: false }
    }

    /// Whether to go on.
    pub fn may_go_on(&mut self) -> bool {
        self.is_dry = self.is_dry || !(self.may_go_on)();
        !self.is_dry
    }

    /// Whether it said no.
    pub fn is_dry(&self) -> bool {
        self.is_dry
    }
}

impl fmt::Debug for Fuel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fuel").field("is_dry", &self.is_dry).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_steps_are_granted_as_were_given() {
        for steps in 0..4 {
            let mut fuel = Fuel::steps(steps);
            let granted = (0..10).filter(|_| fuel.may_go_on()).count();
            assert_eq!((granted as u64, fuel.is_dry()), (steps, true), "{steps}");
        }
    }

    #[test]
    fn fuel_that_said_no_is_not_asked_again() {
        let mut answers = [true, false, true].into_iter();
        let mut fuel = Fuel::asking(|| answers.next().expect("asked too often"));
        let granted: Vec<_> = (0..5).map(|_| fuel.may_go_on()).collect();
        assert_eq!(granted, [true, false, false, false, false]);
    }
}
