//! Decisions: pure functions over plain data.
//!
//! The calculator of the product. It knows no Kubernetes type, no clock, no I/O, no async, no log
//! and no randomness: the same input gives the same answer, byte for byte. What cannot be done is
//! a value with a reason, not an error.
#![warn(missing_docs)]
