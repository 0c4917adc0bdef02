//! Helpers for tests of what stands on this crate.

mod fake_cloud;

pub use fake_cloud::{FakeCloud, RecordedCalls};
