//! Cases of spec 20 §3.19.

mod claims;
mod holding;
mod searching;
mod world;
