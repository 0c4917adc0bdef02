//! Workloads, measured beside upstream in one run. Results with the command that made them go to
//! `bench/results`.
