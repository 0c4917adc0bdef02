//! Building blocks for tests: objects with harmless defaults, small worlds, and queries on plans.
//!
//! What a test does not mention does not matter, so each builder starts from an object without side
//! effects: [`pod`] requires nothing, [`pool`] allows everything, [`node`] is large, ready and
//! empty. A [`World`] holds them and solves; an [`Outcome`] returns where pods went.
//! [`assert_plan_text`] does the same in text.
//!
//! Keys may be written short (`zone`, `hostname`, `type`; see [`label_key`]).

mod catalog;
mod describe;
mod devices;
mod labels;
mod mix;
mod node;
mod outcome;
mod pod;
mod pool;
mod solve;
mod terms;
mod text;
mod types;
mod volumes;
mod world;

pub use catalog::{assorted_types, benchmark_types, default_types, kwok_types};
pub use devices::{DEVICE_DRIVER, claim_key, devices, one_device_claim, published_devices};
pub use labels::{
    ZONES, label_key, label_selector, quantity, requirement, resources, taint, well_known,
};
pub use mix::{SeededRng, diverse_mix, preference_mix};
pub use node::{NodeBuilder, node};
pub use outcome::Outcome;
pub use pod::{PodBuilder, pod};
pub use pool::{PoolBuilder, daemon, pool};
pub use solve::{
    run_verified_pass, solve_both, solve_both_unverified, solve_fast, solve_with_type_limit,
};
pub use terms::{AffinityTermBuilder, SpreadBuilder, spread, term};
pub use text::{assert_plan_text, parse_world};
pub use types::{RESERVATION_ID, TypeBuilder, cpu_bound_type, instance_type, offering, reserved};
pub use volumes::{
    local_volume, persistent_volume, storage_class, volume_claim, zonal_storage_class,
};
pub use world::World;
