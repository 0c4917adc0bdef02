//! Simulated worlds: cloud, kubelets, scheduler and workloads around the real controllers.
//!
//! Everything runs under one seed and, in tests, under paused time; faults and invariants come
//! with it, and a failing seed can be replayed.
