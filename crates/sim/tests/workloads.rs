//! Tests of the workload controllers in a whole world, on a virtual clock.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod workloads {
    mod actor;
    mod apps;
    mod jobs_and_budgets;
    mod quiet;
    mod silent_nodes;
    mod stateful;
}
