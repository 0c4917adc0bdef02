//! A value that many hold and few change.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value that is copied when it is changed, and only if somebody else holds it too. Snapshots are
/// made of such values, so that two of them share what did not change between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// Whether both are the very same value, which says more than that they are equal.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_by_its_maker_alone() {
        let before = Shared::from(vec![1]);
        let mut after = before.clone();
        assert!(after.is_same(&before));
        after.push(2);
        assert_eq!((&**before, &**after), (&[1][..], &[1, 2][..]));
    }
}
