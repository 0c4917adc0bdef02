//! The tree of refusals for a pod: every NodePool, every instance type, every check that it fails.
//! Only the fast solver explains.

use karpenter_core::rejection::{Explanation, FailedCheck, PoolExplanation, RejectionReason};
use karpenter_core::requirement::Operator::In;
use std::collections::BTreeSet;

use karpenter_core::rejection::PodRejection;
use karpenter_core::scheduling::{Fuel, Request, solve};
use karpenter_core::testing::{
    PodBuilder, TypeBuilder, World, ZONES, instance_type, node, offering, pod, pool, term,
};

fn explained(world: World, pod: PodBuilder) -> Explanation {
    let world = world.pod(pod.named("web"));
    let id = world.pod_id("web");
    let world = world.with_options(|options| options.explain = [id].into());
    let plan = world.solve_fast().plan;
    plan.explanations.get(&id).cloned().unwrap_or_else(|| panic!("no explanation: {plan:#?}"))
}

/// Returns the failed checks of each type, nearest first: `type: check, check`.
fn failed_check_lines(pool: &PoolExplanation) -> Vec<String> {
    let line = |miss: &karpenter_core::rejection::InstanceTypeMismatch| {
        let misses: Vec<_> = miss.failed_checks.iter().map(failed_check_text).collect();
        format!("{}: {}", miss.instance_type, misses.join(", "))
    };
    pool.types.iter().map(line).collect()
}

fn failed_check_text(miss: &FailedCheck) -> String {
    match miss {
        FailedCheck::Requirement(why) => format!("requirement ({why})"),
        FailedCheck::Resource { name, needed, available } => {
            format!("{name} {} of {}", needed.canonical(), available.canonical())
        }
        FailedCheck::Offering => "offering".to_owned(),
        FailedCheck::HostPort => "host port".to_owned(),
        FailedCheck::Limits => "limits".to_owned(),
    }
}

fn priced(name: &str, cpu: &str, price: f64) -> TypeBuilder {
    instance_type(name).cpu(cpu).memory("8Gi").no_overhead().on_demand(ZONES[0], price)
}

#[test]
fn an_explanation_names_every_failed_check_of_a_type() {
    let one = || priced("one", "2", 1.0);
    let plain = || World::with_types([one()]);
    let daemon = pod("agent").cpu("500m").host_port(80);
    let sold_out = || {
        let mut gone = offering("on-demand", ZONES[1], 1.0);
        gone.available = false;
        World::with_types([one().offering(gone)])
    };
    #[rustfmt::skip]
    let cases = [
        (plain(),                   pod("a").cpu("3"),                     "one: cpu 3 of 2"),
        (plain().daemon(&daemon),   pod("a").cpu("1.6"),                   "one: cpu 2100m of 2"),
        (plain(),                   pod("a").cpu("3").memory("9Gi"),       "one: cpu 3 of 2, memory 9Gi of 8Gi"),
        (plain(),                   pod("a").request("gpu", "1"),          "one: gpu 1 of 0"),
        (plain(),                   pod("a").select("arch", "arm64"),      "one: requirement (key kubernetes.io/arch, kubernetes.io/arch In [arm64] not in kubernetes.io/arch In [amd64])"),
        (plain().daemon(&daemon),   pod("a").host_port(80),                "one: host port"),
        (sold_out(),                pod("a").select("zone", ZONES[1]),     "one: requirement (key topology.kubernetes.io/zone, topology.kubernetes.io/zone In [test-zone-2] not in topology.kubernetes.io/zone In [test-zone-1]), offering"),
    ];
    for (world, pod, expected) in cases {
        let explanation = explained(world, pod);
        assert_eq!(failed_check_lines(&explanation.pools[0]), [expected]);
    }
}

#[test]
fn the_offering_check_fails_if_no_single_offering_matches() {
    let on_demand = offering("on-demand", ZONES[0], 1.0);
    let spot = offering("spot", ZONES[1], 0.5);
    let world = World::with_types([instance_type("one").offering(on_demand).offering(spot)]);
    let both = pod("a").select("zone", ZONES[1]).select("capacity-type", "on-demand");
    let explanation = explained(world, both);
    assert_eq!(failed_check_lines(&explanation.pools[0]), ["one: offering"]);
}

#[test]
fn types_larger_than_the_remaining_limits_fail_the_limits_check() {
    let types = [priced("small", "2", 1.0), priced("large", "8", 4.0)];
    let world = World::empty().pool(pool("tight").types(types).limit("cpu", "4"));
    let explanation = explained(world, pod("a").cpu("3"));
    assert_eq!(failed_check_lines(&explanation.pools[0]), ["small: cpu 3 of 2", "large: limits"]);
}

#[test]
fn the_type_with_the_fewest_failed_checks_comes_first() {
    let types = [
        priced("two-misses", "1", 0.1).memory("1Gi"),
        priced("dear", "1", 9.0),
        priced("cheap", "1", 2.0),
        priced("b-same", "1", 5.0),
        priced("a-same", "1", 5.0),
    ];
    let explanation = explained(World::with_types(types), pod("a").cpu("2").memory("2Gi"));
    let order: Vec<_> =
        explanation.pools[0].types.iter().map(|miss| miss.instance_type.as_str()).collect();
    // Fewest misses, then price, then name.
    assert_eq!(order, ["cheap", "a-same", "b-same", "dear", "two-misses"]);
}

#[test]
fn a_type_without_offerings_comes_after_those_with_a_price() {
    let mut gone = offering("on-demand", ZONES[0], 0.1);
    gone.available = false;
    let types = [instance_type("a-gone").cpu("8").offering(gone), priced("small", "1", 9.0)];
    let explanation = explained(World::with_types(types), pod("a").cpu("2"));
    let order: Vec<_> =
        explanation.pools[0].types.iter().map(|miss| miss.instance_type.as_str()).collect();
    assert_eq!(order, ["small", "a-gone"]);
}

#[test]
fn pools_come_in_the_order_of_trial_each_with_its_reason() {
    let world = World::empty()
        .pool(pool("last").label("team", "b"))
        .pool(pool("first").weight(10).taint("team=a:NoSchedule"));
    let explanation = explained(world, pod("a").select("team", "a"));
    let names: Vec<_> = explanation.pools.iter().map(|pool| pool.pool.as_str()).collect();
    assert_eq!(names, ["first", "last"]);
    assert!(
        matches!(explanation.pools[0].reason, RejectionReason::Taints(_)),
        "{:?}",
        explanation.pools[0].reason
    );
    assert!(matches!(explanation.pools[1].reason, RejectionReason::Requirements(_)));
}

#[test]
fn types_that_fit_alone_have_no_failed_checks() {
    let world = World::with_types([priced("one", "2", 1.0)])
        .full_node("full", ZONES[0], "web", 1)
        .pod(pod("peer").label("app", "web").on_node("full"));
    let lonely = pod("a").pod_affinity(term("hostname").selecting(&[("app", "nobody")]));
    let explanation = explained(world, lonely);
    assert!(matches!(explanation.pools[0].reason, RejectionReason::Topology(_)));
    assert_eq!(failed_check_lines(&explanation.pools[0]), ["one: "]);
}

#[test]
fn only_requested_pods_that_are_rejected_are_explained() {
    let world = World::new().node(node("n")).pods([
        pod("placed").cpu("1"),
        pod("stuck").cpu("1000"),
        pod("other").cpu("1000"),
    ]);
    let requested = [world.pod_id("placed"), world.pod_id("stuck")];
    let world = world.with_options(|options| options.explain.extend(requested));
    let outcome = world.solve_fast();
    assert_eq!(outcome.rejected(), ["stuck", "other"]);
    let explained: Vec<_> = outcome.plan.explanations.keys().copied().collect();
    assert_eq!(explained, [world.pod_id("stuck")]);
}

#[test]
fn the_plan_is_the_same_with_and_without_explanations() {
    let pods = [pod("web").replicas(5).zone_spread(1), pod("stuck").require("zone", In, &["mars"])];
    let world = World::new().pods(pods);
    let quiet = world.solve().plan;
    let all = world.pending();
    let mut explained_plan =
        world.with_options(|options| options.explain.extend(all)).solve_fast().plan;
    assert_eq!(std::mem::take(&mut explained_plan.explanations).len(), 1);
    assert_eq!(explained_plan, quiet);
}

/// The attempts take a step each; of the reasons that follow, those that are left take one too.
#[test]
fn running_out_of_fuel_also_limits_the_rejection_reasons() {
    let too_large =
        |number: usize| pod(&format!("web-{number}")).cpu(&format!("{}", 1000 + number));
    let world = World::new().pods((0..100).map(too_large));
    let World { snapshot, catalog, options, .. } = &world;
    let (pods, without) = (world.pending(), BTreeSet::new());
    let request = Request { snapshot, catalog, pods: &pods, excluded_nodes: &without, options };
    for (steps, explained, ran_dry) in [(110, 10 + 64, true), (100, 64, true), (200, 100, false)] {
        let plan = solve(&request, &mut Fuel::after_steps(steps));
        let reasons = plan.rejected.values().filter(|why| ***why != PodRejection::SolveCutShort);
        assert_eq!((plan.rejected.len(), plan.was_cut_short), (100, ran_dry), "{steps} steps");
        assert_eq!(reasons.count(), explained, "{steps} steps");
    }
}
