//! Laws of device allocation (spec 20 §3.19).
//!
//! Whatever pods come in whatever order, no device is allocated twice, and a released device is as
//! if it had never been held.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::requirement::{Requirement, Requirements};
use karpenter_core::resources::Quantity;
use karpenter_core::scheduling::dra::*;
use proptest::prelude::*;

const DRIVER: &str = "gpu.example.com";
const ZONE: &str = "topology.kubernetes.io/zone";
const TYPES: [&str; 3] = ["t0", "t1", "t2"];
const CANDIDATES: u32 = 3;
/// Of the capacity `memory` of shared devices, and of the budget of each pool.
const MEMORY: i64 = 4;
const BUDGET: i64 = 3;

fn set(amount: i64) -> CounterSet {
    let counters = BTreeMap::from([("slices".to_owned(), Quantity::from_units(amount))]);
    CounterSet { name: "card".to_owned(), counters }
}

/// A device: shared or not, with a numa node, maybe one that takes of the budget.
fn devices(most: usize) -> impl Strategy<Value = Vec<Device>> {
    let one = (any::<bool>(), 0..2_i64, 0..3_i64);
    prop::collection::vec(one, 0..=most).prop_map(|all| {
        let device = |(at, (allows_multiple, numa, slices)): (usize, (bool, i64, i64))| {
            let value = Quantity::from_units(MEMORY);
            let memory = DeviceCapacity { value, policy: None };
            let shape = DeviceShape {
                driver: DRIVER.into(),
                attributes: BTreeMap::from([("numa".to_owned(), Attribute::Int(numa))]),
                capacity: BTreeMap::from([("memory".to_owned(), memory)]),
                allows_multiple,
            };
            let consumes = if slices == 0 { vec![] } else { vec![set(slices)] };
            Device { name: format!("d{at}").into(), shape: Arc::new(shape), consumes }
        };
        all.into_iter().enumerate().map(device).collect()
    })
}

/// A pool of two slices: devices, for some nodes, and the budget.
fn pool(name: &'static str) -> impl Strategy<Value = Vec<Slice>> {
    let reach = prop_oneof![
        Just(NodeAccess::AllNodes),
        prop::sample::select(&["a", "b"][..]).prop_map(|zone| {
            let zone = std::iter::once(Requirement::in_values(ZONE, [zone])).collect();
            NodeAccess::Selector(vec![zone])
        }),
    ];
    (devices(4), reach).prop_map(move |(devices, reach)| {
        let slice = |devices, reach, counters| Slice {
            driver: DRIVER.into(),
            pool: name.into(),
            generation: 1,
            slice_count: 2,
            owner_node: None,
            node_access: reach,
            devices,
            counters,
        };
        vec![slice(devices, reach, vec![]), slice(vec![], NodeAccess::AllNodes, vec![set(BUDGET)])]
    })
}

fn claim() -> impl Strategy<Value = Claim> {
    let count = prop_oneof![6 => (0..4_u64).prop_map(Count::Exact), 1 => Just(Count::All)];
    let query = (count, prop::option::of(1..3_i64)).prop_map(|(count, memory)| DeviceQuery {
        name: "s".to_owned(),
        class: "any".to_owned(),
        selectors: vec![],
        count,
        capacity: memory
            .map(|units| ("memory".to_owned(), Quantity::from_units(units)))
            .into_iter()
            .collect(),
    });
    let device_queries = prop::collection::vec(query, 1..3)
        .prop_flat_map(|queries| (Just(queries), any::<bool>(), any::<bool>()));
    device_queries.prop_map(|(queries, first_available, matching)| {
        let device_queries = if first_available {
            vec![DeviceRequestKind::FirstAvailable(queries)]
        } else {
            queries.into_iter().map(DeviceRequestKind::Exactly).collect()
        };
        let request =
            |(at, device_query)| DeviceRequest { name: format!("r{at}"), kind: device_query };
        let rule = ConstraintRule::MatchAttribute("numa".to_owned());
        Claim {
            requests: device_queries.into_iter().enumerate().map(request).collect(),
            constraints: matching
                .then(|| Constraint { requests: BTreeSet::new(), rule })
                .into_iter()
                .collect(),
            ..Claim::default()
        }
    })
}

#[derive(Clone, Debug)]
struct AllocatorInput {
    state: DynamicResourceState,
    types: Vec<DynamicResources>,
}

fn any_input() -> impl Strategy<Value = AllocatorInput> {
    let claims = prop::collection::vec(claim(), 1..6);
    let templates = prop::collection::vec(devices(3), TYPES.len());
    (pool("p"), pool("q"), claims, templates).prop_map(|(p, q, claims, templates)| {
        let key = |at| ClaimKey { namespace: "ns".to_owned(), name: format!("c{at}") };
        let claims = claims.into_iter().enumerate();
        let state = DynamicResourceState {
            slices: p.into_iter().chain(q).map(Arc::new).collect(),
            claims: claims.map(|(at, claim)| (key(at), Arc::new(claim))).collect(),
            classes: BTreeMap::from([("any".to_owned(), Arc::default())]),
            matches: Arc::default(),
        };
        let resources = |devices| DynamicResources {
            templates: vec![SliceTemplate {
                driver: DRIVER.into(),
                pool: "local".into(),
                devices,
                counters: vec![set(BUDGET)],
            }],
            bindings: vec![],
        };
        AllocatorInput { state, types: templates.into_iter().map(resources).collect() }
    })
}

/// What the solver may do.
#[derive(Clone, Debug)]
enum Step {
    Place { candidate: u32, claim: usize },
    Release { candidate: u32, type_at: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let candidate = 0..CANDIDATES;
    prop_oneof![
        4 => (candidate.clone(), 0..6_usize).prop_map(|(candidate, claim)| Step::Place { candidate, claim }),
        1 => (candidate, 0..TYPES.len()).prop_map(|(candidate, type_at)| Step::Release { candidate, type_at }),
    ]
}

/// Finds devices for one claim, on a candidate of both zones and all types.
fn allocate_claim(
    world: &AllocatorInput,
    allocator: &Allocator<'_>,
    candidate: u32,
    claim: usize,
) -> Option<Allocation> {
    let requirements: Requirements =
        std::iter::once(Requirement::in_values(ZONE, ["a", "b"])).collect();
    let types = TYPES.iter().zip(&world.types);
    let candidate = Candidate {
        id: CandidateId::InFlight(candidate),
        node_name: None,
        requirements: &requirements,
        types: types.map(|(name, own)| CandidateType::in_flight(name, own)).collect(),
    };
    let key = world.state.claims.keys().nth(claim)?;
    allocator.allocate(&candidate, &[key]).ok()
}

/// The identity of a device. Published devices are the same for all candidates.
type DeviceKey<'a> = (Option<(CandidateId, &'a str)>, &'a DeviceId);

/// Returns every held device with its candidate and instance type.
fn held_devices<'a>(
    allocator: &'a Allocator<'_>,
) -> impl Iterator<Item = (CandidateId, &'a str, &'a ChosenDevice)> {
    allocator.claims().values().flat_map(|claim| {
        claim.by_type.iter().flat_map(|(name, own)| {
            own.devices.iter().map(|device| (claim.candidate, name.as_str(), device))
        })
    })
}

fn check_allocations(world: &AllocatorInput, allocator: &Allocator<'_>) {
    let published = world
        .state
        .slices
        .iter()
        .flat_map(|slice| slice.devices.iter().map(|device| (slice.pool.clone(), device)));
    let own = TYPES.iter().zip(&world.types).flat_map(|(name, own)| {
        own.templates[0].devices.iter().map(|device| (Arc::from(*name), device))
    });
    let by_name: BTreeMap<_, _> = published
        .chain(own)
        .map(|(place, device)| ((place, device.name.clone()), device))
        .collect();
    let device_of = |type_name: &str, chosen: &ChosenDevice| {
        let place = if chosen.is_template { type_name.into() } else { chosen.id.pool.clone() };
        by_name[&(place, chosen.id.device.clone())]
    };

    let mut users: BTreeMap<DeviceKey<'_>, Vec<(CandidateId, &str)>> = BTreeMap::new();
    let mut memory: BTreeMap<(DeviceKey<'_>, CandidateId, &str), Quantity> = BTreeMap::new();
    let mut budgets: BTreeMap<(&str, CandidateId, &str), Quantity> = BTreeMap::new();
    for (candidate, name, chosen) in held_devices(allocator) {
        let device = device_of(name, chosen);
        let seen = (chosen.is_template.then_some((candidate, name)), &chosen.id);
        if device.shape.allows_multiple {
            let sum = memory.entry((seen, candidate, name)).or_default();
            *sum = sum.saturating_add(chosen.consumed["memory"]);
        } else {
            users.entry(seen).or_default().push((candidate, name));
        }
        for amount in device.consumes.iter().flat_map(|set| set.counters.values()) {
            let sum = budgets.entry((&chosen.id.pool, candidate, name)).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }
    for (seen, users) in users {
        let candidates: BTreeSet<_> = users.iter().map(|(candidate, _)| candidate).collect();
        let distinct: BTreeSet<_> = users.iter().collect();
        assert_eq!(candidates.len(), 1, "{seen:?} is held by several candidates");
        assert_eq!(distinct.len(), users.len(), "{seen:?} is held twice by one type");
    }
    // The most that a type of a candidate needs, summed over candidates.
    let mut most: BTreeMap<(DeviceKey<'_>, CandidateId), Quantity> = BTreeMap::new();
    for ((seen, candidate, _), sum) in memory {
        let most = most.entry((seen, candidate)).or_default();
        *most = sum.max(*most);
    }
    let mut shares: BTreeMap<DeviceKey<'_>, Quantity> = BTreeMap::new();
    for ((seen, _), sum) in most {
        let shares = shares.entry(seen).or_default();
        *shares = shares.saturating_add(sum);
    }
    assert!(shares.values().all(|sum| *sum <= Quantity::from_units(MEMORY)), "{shares:?}");
    let mut spent: BTreeMap<(&str, CandidateId), Quantity> = BTreeMap::new();
    for ((pool, candidate, name), sum) in budgets {
        assert!(sum <= Quantity::from_units(BUDGET), "{pool} of {candidate:?} {name}");
        let most = spent.entry((pool, candidate)).or_default();
        *most = sum.max(*most);
    }
    for pool in ["p", "q"] {
        let all = spent.iter().filter(|((of, _), _)| *of == pool);
        let sum = all.fold(Quantity::ZERO, |sum, (_, spent)| sum.saturating_add(*spent));
        assert!(sum <= Quantity::from_units(BUDGET), "budget of {pool}: {sum}");
    }
}

fn run(world: &AllocatorInput, allocator: &mut Allocator<'_>, steps: &[Step]) {
    for step in steps {
        match *step {
            Step::Place { candidate, claim } => {
                if let Some(allocation) = allocate_claim(world, allocator, candidate, claim) {
                    allocator.commit(CandidateId::InFlight(candidate), allocation);
                }
            }
            Step::Release { candidate, type_at } => {
                allocator.release(CandidateId::InFlight(candidate), [TYPES[type_at]]);
            }
        }
    }
}

fn allocator<'a>(world: &'a AllocatorInput, well_known: &'a BTreeSet<String>) -> Allocator<'a> {
    Allocator::new(&world.state, &BTreeSet::new(), BTreeSet::new(), well_known)
}

proptest! {
    #[test]
    fn the_allocator_allocates_no_device_twice(
        world in any_input(),
        steps in prop::collection::vec(step(), 1..16),
    ) {
        let well_known = BTreeSet::from([ZONE.to_owned()]);
        let mut allocator = allocator(&world, &well_known);
        for step in steps {
            run(&world, &mut allocator, std::slice::from_ref(&step));
            check_allocations(&world, &allocator);
        }
    }

    #[test]
    fn release_undoes_commit(
        world in any_input(),
        steps in prop::collection::vec(step(), 0..8),
        claim in 0..6_usize,
    ) {
        let well_known = BTreeSet::from([ZONE.to_owned()]);
        let mut allocator = allocator(&world, &well_known);
        run(&world, &mut allocator, &steps);
        let before = format!("{allocator:?}");
        if let Some(allocation) = allocate_claim(&world, &allocator, CANDIDATES, claim) {
            allocator.commit(CandidateId::InFlight(CANDIDATES), allocation);
            allocator.release(CandidateId::InFlight(CANDIDATES), TYPES);
        }
        prop_assert_eq!(before, format!("{allocator:?}"));
    }

    #[test]
    fn allocation_is_deterministic(world in any_input(), claim in 0..6_usize) {
        let well_known = BTreeSet::from([ZONE.to_owned()]);
        let allocator = allocator(&world, &well_known);
        prop_assert_eq!(allocate_claim(&world, &allocator, 0, claim), allocate_claim(&world, &allocator, 0, claim));
    }
}
