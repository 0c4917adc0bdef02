//! Parses and prints texts of Kubernetes and Go: quantities, durations, integers and names.
//!
//! Each notation has one parser, which all crates use: the wire types, the decisions, the embedded
//! API server and CEL. Error texts reach conditions, events and responses that tools match on, so
//! they are word for word those of Kubernetes 1.36 and Go. No text causes a panic, nor work beyond
//! one pass over it.

mod duration;
mod integer;
pub mod names;
mod quantity;

pub use duration::{DurationError, format_duration, parse_duration};
pub use integer::{IntError, parse_int};
pub use quantity::{Amount, QuantityError, QuantityFormat};
