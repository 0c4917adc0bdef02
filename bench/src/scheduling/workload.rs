//! The clusters whose scheduling decision is measured.

use crate::generate::{Profile, Recipe, Types};

/// One cluster to decide about.
#[derive(Debug)]
pub struct Workload {
    pub name: &'static str,
    pub profile: Profile,
    pub types: Types,
    pub pods: usize,
    pub nodes: usize,
    pub ignore_preferences: bool,
    /// Whether upstream is measured, too. Where it would take hours it is not.
    pub upstream: bool,
}

impl Workload {
    pub(super) fn recipe(&self) -> Recipe {
        let Self { profile, types, pods, nodes, .. } = *self;
        // The seed of upstream's own benchmark; the numbers drawn are ours.
        Recipe { profile, types, pods, nodes, seed: 42, features: None }
    }
}

const fn diverse(name: &'static str, types: Types, pods: usize) -> Workload {
    Workload {
        name,
        profile: Profile::Diverse,
        types,
        pods,
        nodes: 0,
        ignore_preferences: false,
        upstream: true,
    }
}

const fn preferences(name: &'static str, types: Types, ignore_preferences: bool) -> Workload {
    Workload {
        name,
        profile: Profile::Preferences,
        types,
        pods: 4000,
        nodes: 0,
        ignore_preferences,
        upstream: true,
    }
}

/// Everything, the quick ones first.
pub const WORKLOADS: &[Workload] = &[
    diverse("diverse-400-1", Types::Fake400, 1),
    diverse("diverse-400-50", Types::Fake400, 50),
    diverse("diverse-400-100", Types::Fake400, 100),
    diverse("diverse-400-500", Types::Fake400, 500),
    diverse("diverse-400-1000", Types::Fake400, 1000),
    diverse("diverse-400-2000", Types::Fake400, 2000),
    diverse("diverse-400-5000", Types::Fake400, 5000),
    diverse("diverse-400-10000", Types::Fake400, 10_000),
    diverse("diverse-400-20000", Types::Fake400, 20_000),
    diverse("diverse-kwok-5000", Types::Kwok, 5000),
    diverse("diverse-kwok-10000", Types::Kwok, 10_000),
    diverse("diverse-kwok-20000", Types::Kwok, 20_000),
    preferences("preferences-400-respect", Types::Fake400, false),
    preferences("preferences-400-ignore", Types::Fake400, true),
    preferences("preferences-kwok-respect", Types::Kwok, false),
    preferences("preferences-kwok-ignore", Types::Kwok, true),
    Workload {
        name: "plain-kwok-100000",
        profile: Profile::Plain,
        types: Types::Kwok,
        pods: 100_000,
        nodes: 0,
        ignore_preferences: false,
        upstream: false,
    },
    Workload {
        name: "existing-2000-nodes",
        profile: Profile::Plain,
        types: Types::Kwok,
        pods: 13_579, // 30,000 with those that run there
        nodes: 2000,
        ignore_preferences: false,
        upstream: true,
    },
    Workload {
        name: "pathological-pod",
        profile: Profile::Pathological,
        types: Types::Kwok,
        pods: 100,
        nodes: 200,
        ignore_preferences: false,
        upstream: false, // it takes minutes
    },
];
