//! Simulated worlds: cloud, kubelets, scheduler and workloads around the real controllers.
//!
//! Everything runs under one seed and, in tests, under paused time; faults and invariants come
//! with it, and a failing seed can be replayed.

pub mod check;
pub mod cloud;
pub mod faults;
pub mod kubelet;
pub mod kwok;
pub mod objects;
pub mod scenario;
pub mod scheduler;
pub mod swarm;
pub mod timeline;
pub mod view;
pub mod volumes;
pub mod workloads;
pub mod world;
pub mod writes;
