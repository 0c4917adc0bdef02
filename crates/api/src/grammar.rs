//! Texts of the API and the values that they stand for (spec 10 §1, §15).
//!
//! The field types here are total: whatever text an object carries is read, kept and written back,
//! and only `value()` says whether it means anything. One bad object can therefore never break
//! the decoding of a whole list (spec 10 §15.1).

mod bound;
mod duration;
mod quantity;

pub use bound::parse_bound;
pub use duration::{Duration, NillableDuration};
pub use karpenter_grammar::names::{
    dns_subdomain_errors, label_value_errors, qualified_name_errors,
};
pub use karpenter_grammar::{
    Amount, DurationError, QuantityError, QuantityFormat, format_duration, parse_duration,
};
pub use quantity::Quantity;
