//! Building blocks for tests: objects with harmless defaults, small worlds, and questions to a plan.
//!
//! What a test does not mention does not matter, so each builder starts from something that gets in
//! nobody's way: [`pod`] asks for nothing, [`pool`] allows everything, [`node`] is large, ready and
//! empty. A [`World`] holds them and solves; an [`Outcome`] answers where pods went.
//! [`check`] does the same in text.
//!
//! Keys may be written short (`zone`, `hostname`, `type`; see [`key`]).

mod catalogue;
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

pub use catalogue::{assorted, benchmark_types, default_types, kwok_types};
pub use devices::{DEVICE_DRIVER, claim_key, devices, one_device, published};
pub use labels::{ZONES, key, label_selector, quantity, requirement, resources, taint, well_known};
pub use mix::{Chance, diverse_mix, preference_mix};
pub use node::{NodeBuilder, node};
pub use outcome::Outcome;
pub use pod::{PodBuilder, pod};
pub use pool::{PoolBuilder, daemon, pool};
pub use solve::{solve_alike, solve_both, solve_fast, solve_listing};
pub use terms::{Spread, Term, spread, term};
pub use text::{check, world};
pub use types::{RESERVATION_ID, TypeBuilder, instance_type, offering, reserved, roomy_type};
pub use volumes::{allowed_zones, claim, local_volume, storage_class, volume};
pub use world::World;
