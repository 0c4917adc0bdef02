//! Tests of dynamic resource allocation (spec 20 §3.19).

mod claims;
mod device_holds;
mod device_search;
mod test_cluster;
