//! Shared values that are cloned when they are changed.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A shared value that is cloned when it is changed.
///
/// The clone is skipped if the value has no other owner. Snapshots consist of such values, so that
/// two snapshots share all that did not change between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyOnWrite<T>(Arc<T>);

impl<T> CopyOnWrite<T> {
    /// Returns whether both share one allocation, which is stricter than equality.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> From<T> for CopyOnWrite<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for CopyOnWrite<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for CopyOnWrite<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_does_not_affect_other_copies() {
        let before = CopyOnWrite::from(vec![1]);
        let mut after = before.clone();
        assert!(after.ptr_eq(&before));
        after.push(2);
        assert_eq!((&**before, &**after), (&[1][..], &[1, 2][..]));
    }
}
