//! The next step of one NodeClaim, given facts and a time.

pub mod static_hash;
