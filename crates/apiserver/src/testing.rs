//! Suites that are written once and run against this API and against a real API server.

pub mod admission_table;
pub mod conformance;
pub mod environment;
pub mod protobuf;
#[cfg(test)]
pub(crate) mod request;
