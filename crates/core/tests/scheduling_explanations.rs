//! The tree of refusals for a pod: every NodePool, every instance type, every check that it fails.
//! Only the fast solver explains.

use karpenter_core::reason::{Explanation, Miss, PoolExplanation, Why};
use karpenter_core::requirement::Operator::In;
use std::collections::BTreeSet;

use karpenter_core::reason::Refusal;
use karpenter_core::scheduling::{Fuel, Request, solve};
use karpenter_core::testing::{
    PodBuilder, TypeBuilder, World, ZONES, instance_type, node, offering, pod, pool, term,
};

fn explained(world: World, pod: PodBuilder) -> Explanation {
    let world = world.pod(pod.named("web"));
    let id = world.pod_id("web");
    let world = world.with(|options| options.explain = [id].into());
    let plan = world.solve_fast().plan;
    plan.explanations.get(&id).cloned().unwrap_or_else(|| panic!("no explanation: {plan:#?}"))
}

/// What each type misses, nearest first: `type: miss, miss`.
fn lines(pool: &PoolExplanation) -> Vec<String> {
    let line = |miss: &karpenter_core::reason::TypeMiss| {
        let misses: Vec<_> = miss.misses.iter().map(text).collect();
        format!("{}: {}", miss.instance_type, misses.join(", "))
    };
    pool.types.iter().map(line).collect()
}

fn text(miss: &Miss) -> String {
    match miss {
        Miss::Requirement(why) => format!("requirement ({why})"),
        Miss::Resource { name, needed, available } => {
            format!("{name} {} of {}", needed.canonical(), available.canonical())
        }
        Miss::Offering => "offering".to_owned(),
        Miss::HostPort => "host port".to_owned(),
        Miss::Limits => "limits".to_owned(),
    }
}

fn priced(name: &str, cpu: &str, price: f64) -> TypeBuilder {
    instance_type(name).cpu(cpu).memory("8Gi").no_overhead().on_demand(ZONES[0], price)
}

#[test]
fn every_check_that_a_type_fails_is_named() {
    let one = || priced("one", "2", 1.0);
    let plain = || World::of([one()]);
    let daemon = pod("agent").cpu("500m").host_port(80);
    let sold_out = || {
        let mut gone = offering("on-demand", ZONES[1], 1.0);
        gone.available = false;
        World::of([one().sold(gone)])
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
        assert_eq!(lines(&explanation.pools[0]), [expected]);
    }
}

#[test]
fn an_offering_is_missing_where_no_single_one_suits() {
    let on_demand = offering("on-demand", ZONES[0], 1.0);
    let spot = offering("spot", ZONES[1], 0.5);
    let world = World::of([instance_type("one").sold(on_demand).sold(spot)]);
    let both = pod("a").select("zone", ZONES[1]).select("capacity-type", "on-demand");
    let explanation = explained(world, both);
    assert_eq!(lines(&explanation.pools[0]), ["one: offering"]);
}

#[test]
fn limits_are_missed_by_types_that_are_larger() {
    let types = [priced("small", "2", 1.0), priced("large", "8", 4.0)];
    let world = World::empty().pool(pool("tight").types(types).limit("cpu", "4"));
    let explanation = explained(world, pod("a").cpu("3"));
    assert_eq!(lines(&explanation.pools[0]), ["small: cpu 3 of 2", "large: limits"]);
}

#[test]
fn the_nearest_miss_comes_first() {
    let types = [
        priced("two-misses", "1", 0.1).memory("1Gi"),
        priced("dear", "1", 9.0),
        priced("cheap", "1", 2.0),
        priced("b-same", "1", 5.0),
        priced("a-same", "1", 5.0),
    ];
    let explanation = explained(World::of(types), pod("a").cpu("2").memory("2Gi"));
    let order: Vec<_> =
        explanation.pools[0].types.iter().map(|miss| miss.instance_type.as_str()).collect();
    // Fewest misses, then price, then name.
    assert_eq!(order, ["cheap", "a-same", "b-same", "dear", "two-misses"]);
}

#[test]
fn a_type_without_offerings_comes_after_those_with_a_price() {
    let mut gone = offering("on-demand", ZONES[0], 0.1);
    gone.available = false;
    let types = [instance_type("a-gone").cpu("8").sold(gone), priced("small", "1", 9.0)];
    let explanation = explained(World::of(types), pod("a").cpu("2"));
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
    assert!(matches!(explanation.pools[0].why, Why::Taints(_)), "{:?}", explanation.pools[0].why);
    assert!(matches!(explanation.pools[1].why, Why::Requirements(_)));
}

#[test]
fn types_that_would_do_are_shown_to_miss_nothing() {
    let world = World::of([priced("one", "2", 1.0)])
        .full_node("full", ZONES[0], "web", 1)
        .pod(pod("peer").label("app", "web").on("full"));
    let lonely = pod("a").near(term("hostname").selecting(&[("app", "nobody")]));
    let explanation = explained(world, lonely);
    assert!(matches!(explanation.pools[0].why, Why::Topology(_)));
    assert_eq!(lines(&explanation.pools[0]), ["one: "]);
}

#[test]
fn only_pods_that_are_asked_about_and_refused_are_explained() {
    let world = World::new().node(node("n")).pods([
        pod("placed").cpu("1"),
        pod("stuck").cpu("1000"),
        pod("other").cpu("1000"),
    ]);
    let asked = [world.pod_id("placed"), world.pod_id("stuck")];
    let world = world.with(|options| options.explain.extend(asked));
    let outcome = world.solve_fast();
    assert_eq!(outcome.refused(), ["stuck", "other"]);
    let explained: Vec<_> = outcome.plan.explanations.keys().copied().collect();
    assert_eq!(explained, [world.pod_id("stuck")]);
}

#[test]
fn the_plan_is_the_same_with_and_without_explanations() {
    let pods = [pod("web").times(5).zone_spread(1), pod("stuck").require("zone", In, &["mars"])];
    let world = World::new().pods(pods);
    let quiet = world.solve().plan;
    let all = world.pending();
    let mut told = world.with(|options| options.explain.extend(all)).solve_fast().plan;
    assert_eq!(std::mem::take(&mut told.explanations).len(), 1);
    assert_eq!(told, quiet);
}

/// The attempts take a step each; of the reasons that follow, those that are left take one too.
#[test]
fn working_out_reasons_is_cut_short_as_well() {
    let too_large =
        |number: usize| pod(&format!("web-{number}")).cpu(&format!("{}", 1000 + number));
    let world = World::new().pods((0..100).map(too_large));
    let World { snapshot, catalog, options, .. } = &world;
    let (pods, without) = (world.pending(), BTreeSet::new());
    let request = Request { snapshot, catalog, pods: &pods, without: &without, options };
    for (steps, explained, ran_dry) in [(110, 10 + 64, true), (100, 64, true), (200, 100, false)] {
        let plan = solve(&request, &mut Fuel::steps(steps));
        let reasons = plan.refused.values().filter(|why| ***why != Refusal::NotTriedAgain);
        assert_eq!((plan.refused.len(), plan.ran_dry), (100, ran_dry), "{steps} steps");
        assert_eq!(reasons.count(), explained, "{steps} steps");
    }
}
