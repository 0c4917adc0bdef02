//! Helpers for tests of what stands on this crate.

mod fake_cloud;
mod x_provider;

pub use fake_cloud::{FakeCloud, RecordedCalls};
pub use x_provider::{TestNodeClass, TestNodeClassStatus, XProvider, test_node_class_crd};
