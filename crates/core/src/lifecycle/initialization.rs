//! When a registered node can run what it was made for (spec 40 §1.4).

use std::collections::{BTreeMap, BTreeSet};

use super::ConditionStatus;
use crate::resources::Resources;
use crate::taint::{Taint, is_known_ephemeral};

/// What to do about the initialization of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing but to keep the condition current: it is decided.
    Settled,
    /// Nothing: something else comes first.
    Wait,
    /// Check the node.
    Check,
}

/// Returns the step of a claim with these conditions.
/// A rebooting node has to restart first, or the boot that ends would count.
pub fn next(initialized: ConditionStatus, is_rebooting: bool, is_registered: bool) -> Step {
    if initialized != ConditionStatus::Unknown {
        Step::Settled
    } else if is_rebooting || !is_registered {
        Step::Wait
    } else {
        Step::Check
    }
}

/// What counts of the claim and its node.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Taints that have to go first.
    pub startup_taints: Vec<Taint>,
    /// What the claim was made for.
    pub requests: Resources,
    /// DRA drivers that have to publish devices, as the annotation lists them.
    /// None if devices are not checked.
    pub drivers: Option<String>,
    /// The node, if there is exactly one.
    pub node: Option<NodeFacts>,
}

/// What counts of the node.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// Whether its condition Ready is True.
    pub is_ready: bool,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// What pods can have.
    pub allocatable: Resources,
    /// The slices of devices that belong to it.
    pub slices: Vec<DeviceSlice>,
}

/// A ResourceSlice: some devices of one pool of a DRA driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSlice {
    /// The DRA driver of the devices.
    pub driver: String,
    /// The pool.
    pub pool: String,
    /// Newer descriptions of the pool have a higher one.
    pub generation: i64,
    /// How many slices the pool has in that generation.
    pub slice_count: i64,
}

/// Why a node is not initialized yet.
/// Taints, resources and drivers are the first ones found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitializationBlocker {
    /// There is none, or several.
    NodeNotFound,
    /// It is not ready.
    NodeNotReady,
    /// A startup taint of the claim is still there.
    StartupTaint(Taint),
    /// A taint that nodes shed by themselves is still there.
    EphemeralTaint(Taint),
    /// A resource that was asked for is not there.
    Resource(String),
    /// A driver has not published a whole pool.
    Driver(String),
}

/// Whether the node is initialized.
pub fn check(facts: &Facts) -> Result<(), InitializationBlocker> {
    let node = facts.node.as_ref().ok_or(InitializationBlocker::NodeNotFound)?;
    if !node.is_ready {
        return Err(InitializationBlocker::NodeNotReady);
    }
    let startup_taints = facts.startup_taints.iter();
    let mut left = startup_taints.filter_map(|s| node.taints.iter().find(|t| s.matches(t)));
    if let Some(taint) = left.next() {
        return Err(InitializationBlocker::StartupTaint(taint.clone()));
    }
    if let Some(taint) = node.taints.iter().find(|t| is_known_ephemeral(&t.key, t.effect)) {
        return Err(InitializationBlocker::EphemeralTaint(taint.clone()));
    }
    // Kubelets say zero for extended resources until the device plugin has come.
    let is_missing = |name: &str| node.allocatable.amount(name).is_zero();
    let mut requests = facts.requests.iter().filter(|(_, quantity)| !quantity.is_zero());
    if let Some((name, _)) = requests.find(|(name, _)| is_missing(name)) {
        return Err(InitializationBlocker::Resource(name.to_owned()));
    }
    let drivers = facts.drivers.as_deref().unwrap_or_default();
    match missing_driver(drivers, &node.slices) {
        Some(driver) => Err(InitializationBlocker::Driver(driver.to_owned())),
        None => Ok(()),
    }
}

fn missing_driver<'a>(drivers: &'a str, slices: &[DeviceSlice]) -> Option<&'a str> {
    let mut drivers = drivers.split(',').map(str::trim).filter(|driver| !driver.is_empty());
    let complete = complete_drivers(slices);
    drivers.find(|driver| !complete.contains(driver))
}

/// Drivers with a pool whose newest generation has all of its slices.
fn complete_drivers(slices: &[DeviceSlice]) -> BTreeSet<&str> {
    struct Pool {
        generation: i64,
        slice_count: i64,
        seen: i64,
    }
    let mut pools: BTreeMap<(&str, &str), Pool> = BTreeMap::new();
    for DeviceSlice { driver, pool, generation, slice_count } in slices {
        let new = Pool { generation: *generation, slice_count: *slice_count, seen: 0 };
        let pool = pools.entry((driver, pool)).or_insert(Pool { ..new });
        if *generation > pool.generation {
            *pool = new;
        }
        if *generation == pool.generation {
            pool.seen += 1;
        }
    }
    let is_complete = |pool: &Pool| pool.slice_count > 0 && pool.seen == pool.slice_count;
    pools.iter().filter(|(_, pool)| is_complete(pool)).map(|((driver, _), _)| *driver).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Quantity;
    use crate::taint::TaintEffect::{self, NoExecute, NoSchedule};
    use ConditionStatus::{False, True, Unknown};

    fn taint(key: &str, effect: TaintEffect) -> Taint {
        Taint { key: key.to_owned(), value: String::new(), effect }
    }

    fn resources(list: &[(&str, i64)]) -> Resources {
        list.iter().map(|&(name, n)| (name, Quantity::from_units(n))).collect()
    }

    fn slice(driver: &str, pool: &str, generation: i64, slice_count: i64) -> DeviceSlice {
        DeviceSlice { driver: driver.to_owned(), pool: pool.to_owned(), generation, slice_count }
    }

    fn initialized_node() -> NodeFacts {
        let allocatable = resources(&[("cpu", 4), ("gpu", 1)]);
        NodeFacts { is_ready: true, allocatable, ..NodeFacts::default() }
    }

    fn facts(node: NodeFacts) -> Facts {
        Facts {
            startup_taints: vec![taint("example.com/start", NoSchedule)],
            requests: resources(&[("cpu", 1), ("gpu", 1), ("none", 0)]),
            drivers: None,
            node: Some(node),
        }
    }

    #[test]
    fn initialization_waits_for_registration_and_the_end_of_a_reboot() {
        #[rustfmt::skip]
        let cases = [
            // case        initialized  rebooting  registered  step
            ("40/LC-23",   Unknown,     false,     false,      Step::Wait),
            ("45/LC-3",    Unknown,     true,      true,       Step::Wait),
            ("40/LC-25",   Unknown,     false,     true,       Step::Check),
            ("40/LC-30",   True,        false,     true,       Step::Settled),
            ("45/§12.2",   True,        true,      true,       Step::Settled),
            ("by others",  False,       false,     true,       Step::Settled),
        ];
        for (case, initialized, is_rebooting, is_registered, step) in cases {
            assert_eq!(next(initialized, is_rebooting, is_registered), step, "{case}");
        }
    }

    #[test]
    fn the_first_missing_condition_blocks_initialization() {
        let start = Taint { value: "yes".to_owned(), ..taint("example.com/start", NoSchedule) };
        let readiness = taint("readiness.k8s.io/x", NoSchedule);
        let unregistered = taint("karpenter.sh/unregistered", NoExecute);
        let with = |taints: &[&Taint]| NodeFacts {
            taints: taints.iter().map(|&taint| taint.clone()).collect(),
            ..initialized_node()
        };
        let zero = |name| {
            let mut node = initialized_node();
            node.allocatable.set(name, Quantity::ZERO);
            node
        };
        #[rustfmt::skip]
        let cases = [
            ("40/LC-25", initialized_node(),                                       Ok(())),
            ("40/LC-24", NodeFacts { is_ready: false, ..initialized_node() },      Err(InitializationBlocker::NodeNotReady)),
            ("40/LC-24: value does not count", with(&[&start]),             Err(InitializationBlocker::StartupTaint(start.clone()))),
            ("40/LC-24", with(&[&unregistered]),                            Err(InitializationBlocker::EphemeralTaint(unregistered.clone()))),
            ("40/LC-24", with(&[&readiness]),                               Err(InitializationBlocker::EphemeralTaint(readiness.clone()))),
            ("startup first", with(&[&readiness, &start]),                  Err(InitializationBlocker::StartupTaint(start.clone()))),
            ("40/LC-24, 40/LC-26", zero("gpu"),                             Err(InitializationBlocker::Resource("gpu".to_owned()))),
            ("other effect", with(&[&taint("example.com/start", NoExecute)]), Ok(())),
        ];
        for (case, node, expected) in cases {
            assert_eq!(check(&facts(node)), expected, "{case}");
        }
        let without_node = Facts { node: None, ..facts(initialized_node()) };
        assert_eq!(check(&without_node), Err(InitializationBlocker::NodeNotFound));
    }

    #[test]
    fn every_dra_driver_needs_a_complete_pool_of_the_newest_generation() {
        let missing = |driver: &str| Err(InitializationBlocker::Driver(driver.to_owned()));
        #[rustfmt::skip]
        let cases = [
            ("40/LC-29: off",        None,            vec![],                                                  Ok(())),
            ("40/LC-29: empty",      Some(" , "),     vec![],                                                  Ok(())),
            ("40/LC-27",             Some("a, b"),    vec![slice("a", "p", 1, 1)],                             missing("b")),
            ("both",                 Some("a,b"),     vec![slice("a", "p", 1, 1), slice("b", "q", 1, 1)],      Ok(())),
            ("half",                 Some("a"),       vec![slice("a", "p", 1, 2)],                             missing("a")),
            ("whole",                Some("a"),       vec![slice("a", "p", 1, 2), slice("a", "p", 1, 2)],      Ok(())),
            ("40/LC-28",             Some("a"),       vec![slice("a", "p", 1, 1), slice("a", "p", 2, 2)],      missing("a")),
            ("40/LC-28: any order",  Some("a"),       vec![slice("a", "p", 2, 2), slice("a", "p", 1, 1)],      missing("a")),
            ("another pool",         Some("a"),       vec![slice("a", "p", 2, 2), slice("a", "q", 1, 1)],      Ok(())),
            ("says nothing",         Some("a"),       vec![slice("a", "p", 1, 0)],                             missing("a")),
            ("too many",             Some("a"),       vec![slice("a", "p", 1, 1), slice("a", "p", 1, 1)],      missing("a")),
        ];
        for (case, drivers, slices, expected) in cases {
            let facts = Facts {
                drivers: drivers.map(str::to_owned),
                ..facts(NodeFacts { slices, ..initialized_node() })
            };
            assert_eq!(check(&facts), expected, "{case}");
        }
    }
}
