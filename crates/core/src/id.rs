//! Positions in a [`Snapshot`](crate::snapshot::Snapshot) as types, so that a pod's cannot be taken
//! for a node's.

/// The position of a pod in [`Snapshot::pods`](crate::snapshot::Snapshot::pods).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId(pub u32);

/// The position of a node in [`Snapshot::nodes`](crate::snapshot::Snapshot::nodes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// The position of a NodePool in [`Snapshot::pools`](crate::snapshot::Snapshot::pools).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u32);

macro_rules! index {
    ($($id:ident),+) => {$(
        impl $id {
            /// The position as a number to index with.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of a position.
            ///
            /// # Panics
            /// If there are more than `u32::MAX` of them, which no memory holds.
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("more objects than memory can hold"))
            }
        }
    )+};
}

index!(PodId, NodeId, PoolId);
