//! The cost of one pod with many terms (spec 20 §3.15), counted in attempts, not in time.

use std::collections::BTreeSet;

use karpenter_core::requirement::Operator::In;
use karpenter_core::scheduling::{Fuel, Request, solve};
use karpenter_core::testing::{PodBuilder, World, ZONES, pod, spread, term};
use proptest::prelude::*;

/// The most terms of a pod that is read (`karpenter_cluster::ingest::constraint_limits`).
const MAX_TERMS: usize = 1_100;

/// A sort of constraint that a relaxation can drop.
#[derive(Clone, Copy, Debug)]
enum Kind {
    PreferredAffinity,
    PreferredAntiAffinity,
    /// Each term has a topology key of its own.
    PreferredTopologyKey,
    NodePreference,
    RequiredTerm,
    SoftSpread,
}

const KINDS: [Kind; 6] = [
    Kind::PreferredAffinity,
    Kind::PreferredAntiAffinity,
    Kind::PreferredTopologyKey,
    Kind::NodePreference,
    Kind::RequiredTerm,
    Kind::SoftSpread,
];

/// One term: its kind, its weight, and whether a node can satisfy it.
type Term = (Kind, i32, bool);

fn with_term(pod: PodBuilder, position: usize, (kind, weight, is_possible): Term) -> PodBuilder {
    let zone = if is_possible { ZONES[position % ZONES.len()] } else { "no-such-zone" };
    let value = position.to_string();
    // No pod has these labels, so an affinity is possible only if the pod selects itself.
    let labels = [("app", if is_possible { "web" } else { "none" }), ("position", value.as_str())];
    let labels = &labels[..if is_possible { 1 } else { 2 }];
    match kind {
        Kind::PreferredAffinity => pod.prefer_pod_affinity(weight, term("zone").selecting(labels)),
        Kind::PreferredAntiAffinity => {
            pod.prefer_pod_anti_affinity(weight, term("host").selecting(labels))
        }
        Kind::PreferredTopologyKey => {
            let key = format!("example.com/key-{position}");
            pod.prefer_pod_affinity(weight, term(&key).selecting(labels))
        }
        Kind::NodePreference => pod.prefer(weight, "zone", In, &[zone]),
        Kind::RequiredTerm => pod.or_require("zone", In, &[zone]),
        Kind::SoftSpread => {
            let spread = spread("zone", 1 + weight).selecting(labels);
            pod.spread(spread.schedule_anyway())
        }
    }
}

/// Returns how many attempts the solver makes to place one pod.
fn count_attempts(pod: PodBuilder) -> usize {
    let world = World::new().pod(pod);
    let World { snapshot, catalog, options, .. } = &world;
    let (pods, without) = (world.pending(), BTreeSet::new());
    let request = Request { snapshot, catalog, pods: &pods, excluded_nodes: &without, options };
    let mut attempts = 0;
    let plan = solve(
        &request,
        &mut Fuel::limited_by(|| {
            attempts += 1;
            true
        }),
    );
    assert!(!plan.was_cut_short);
    attempts
}

/// The most attempts for a pod with `terms` terms: 2 · n · log2(n + 1), and a few for the pod itself.
fn attempts_max(terms: usize) -> usize {
    let log2 = terms.checked_ilog2().map_or(0, |log2| log2 as usize + 1);
    4 + 2 * terms * log2
}

fn any_terms() -> impl Strategy<Value = Vec<Term>> {
    let term = (proptest::sample::select(&KINDS[..]), 1..=100_i32, proptest::bool::weighted(0.1));
    // Small pods show mistakes at the limits, and large ones growth.
    prop_oneof![
        proptest::collection::vec(term.clone(), 1..20),
        proptest::collection::vec(term, 1..=MAX_TERMS),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn attempts_grow_almost_linearly_with_the_terms_of_a_pod(
        terms in any_terms(),
        is_too_large in any::<bool>(),
    ) {
        let count = terms.len();
        let web = pod("web").cpu(if is_too_large { "1000" } else { "1" });
        let web = (terms.into_iter().enumerate())
            .fold(web, |pod, (position, term)| with_term(pod, position, term));
        let attempts = count_attempts(web);
        prop_assert!(attempts <= attempts_max(count), "{attempts} attempts for {count} terms");
    }
}

#[test]
fn the_largest_pod_of_each_kind_needs_no_more_attempts_than_terms() {
    for kind in KINDS {
        let web = pod("web").cpu("1000");
        let web = (0..MAX_TERMS).fold(web, |pod, position| {
            let weight = i32::try_from(position % 100).unwrap() + 1;
            with_term(pod, position, (kind, weight, false))
        });
        let attempts = count_attempts(web);
        // One for each step, one before the first step, and one for the reason of the rejection.
        assert!(attempts <= MAX_TERMS + 2, "{kind:?}: {attempts} attempts");
    }
}
