//! Placing pods: what limits the nodes that they may get.

pub mod limits;
pub mod min_values;
