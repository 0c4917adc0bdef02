//! The KWOK provider: a cloud whose instances are Node objects that nobody runs (spec 40 §10).
//!
//! [`catalog`] holds what it offers. It serves `karpenter plan` and scale tests as well, since it
//! needs no account anywhere.

pub mod catalog;
