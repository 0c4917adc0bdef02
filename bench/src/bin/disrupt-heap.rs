//! Measures the heap memory of a snapshot and one consolidation pass. Slow: each allocation is
//! counted.

use clap::Parser as _;
use karpenter_bench::disruption::Heap;
use karpenter_bench::disruption::measure::{Args, LoadedSnapshot};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let profiler = dhat::Profiler::builder().testing().build();
    let loaded = LoadedSnapshot::new(&args)?;
    let held = dhat::HeapStats::get().curr_bytes;
    drop(profiler);
    // Counts from here on.
    let profiler = dhat::Profiler::builder().testing().build();
    let pass = loaded.run_pass();
    let peak = dhat::HeapStats::get().max_bytes;
    drop(profiler);
    drop(pass);
    karpenter_bench::measure::print_json(&Heap {
        held_bytes: u64::try_from(held)?,
        peak_bytes: u64::try_from(peak)?,
    })
}
