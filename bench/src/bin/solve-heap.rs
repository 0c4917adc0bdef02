//! Measures the peak heap memory and the allocations of one solve. Slow: each is counted.

use clap::Parser as _;
use karpenter_bench::measure::{self, Args, LoadedSnapshot};
use karpenter_bench::scheduling::Heap;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

fn main() -> anyhow::Result<()> {
    let loaded = LoadedSnapshot::new(&Args::parse())?;
    // Counts from here on, so what was loaded is no part of it.
    let profiler = dhat::Profiler::builder().testing().build();
    let plan = loaded.solve();
    let stats = dhat::HeapStats::get();
    drop(profiler);
    drop(plan);
    measure::print_json(&Heap {
        peak_bytes: u64::try_from(stats.max_bytes)?,
        allocations: stats.total_blocks,
        allocated_bytes: stats.total_bytes,
    })
}
