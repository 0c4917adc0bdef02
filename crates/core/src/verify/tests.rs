//! Every kind of violation is found. Each case starts from a good plan and breaks one thing, in the
//! plan or in the world that it was made for.

use std::sync::Arc;

use crate::host_port::HostPort;
use crate::id::{NodeId, PodId, PoolId};
use crate::plan::Plan;
use crate::pod::PodSpec;
use crate::rejection::PodRejection;
use crate::requirement::{Requirement, Requirements};
use crate::resources::{NODES, Quantity};
use crate::scheduling::reference::tests::small_cluster::{
    HOSTNAME, SmallCluster, ZONE, daemon, in_values, labelled, spread, term,
};
use crate::taint::{Taint, TaintEffect};
use crate::verify::Level;
use crate::volume::{PersistentVolume, VolumeClaim};

type PlanChange<'b> = &'b dyn Fn(&mut SmallCluster, &mut Plan);

/// Returns the violations after a change to a good plan or its world.
fn violations_after(
    mut small: SmallCluster,
    change: impl FnOnce(&mut SmallCluster, &mut Plan),
) -> Vec<String> {
    let mut plan = small.solve();
    change(&mut small, &mut plan);
    small.violations(&plan)
}

/// One pod on a NodeClaim of types `two` and `four`.
fn on_claim() -> SmallCluster {
    SmallCluster::new(&[("two", 2, 0.2), ("four", 4, 0.4)]).pod("web", 500)
}

/// One pod on node `a`.
fn on_node() -> SmallCluster {
    on_claim().node("a", 2, |_| ())
}

fn change_spec(small: &mut SmallCluster, pod: &str, change: impl FnOnce(&mut PodSpec)) {
    let id = small.id(pod);
    change(Arc::make_mut(&mut small.snapshot.pods[id.index()].spec));
}

fn taint() -> Taint {
    Taint { key: "team".to_owned(), value: String::new(), effect: TaintEffect::NoSchedule }
}

fn port() -> HostPort {
    HostPort { ip: "0.0.0.0".to_owned(), port: 80, protocol: "TCP".to_owned() }
}

fn requirements(plan: &mut Plan, claim: usize, requirement: &Requirement) {
    let all = plan.claims[claim].requirements.iter().cloned();
    let kept = all.filter(|known| known.key() != requirement.key());
    plan.claims[claim].requirements = Arc::new(kept.chain([requirement.clone()]).collect());
}

#[test]
fn the_plan_must_place_or_reject_every_requested_pod_once() {
    let refuse = |_: &mut SmallCluster, plan: &mut Plan| {
        plan.rejected.insert(PodId(0), Arc::new(PodRejection::NoUsablePool));
    };
    #[rustfmt::skip]
    let cases: [(&str, PlanChange<'_>, &str); 5] = [
        ("unknown",   &|_, plan| plan.claims[0].pods.push(PodId(7)),          "there is no pod 7"),
        ("not asked", &|_, plan| plan.claims[0].pods.push(PodId(1)),          "default/old-0 was not to be placed"),
        ("twice",     &|_, plan| plan.claims[0].pods.push(PodId(0)),          "default/web-0 is placed twice"),
        ("both",      &refuse,   "default/web-0 is placed and refused"),
        ("forgotten", &|_, plan| plan.claims.clear(),                         "default/web-0 is neither placed nor refused"),
    ];
    for (case, change, expected) in cases {
        let small = SmallCluster::new(&[("two", 2, 0.2)])
            .pod("web", 500)
            .node("full", 1, |node| node.taints.push(taint()))
            .bound("old", 1000, "full");
        let found = violations_after(small, change);
        assert!(found.contains(&expected.to_owned()), "{case}: {found:?}");
    }
}

#[test]
fn a_plan_that_was_cut_short_may_leave_pods_out() {
    let found = violations_after(on_claim(), |_, plan| {
        *plan = Plan { was_cut_short: true, ..Plan::default() }
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn target_nodes_pools_and_types_must_exist() {
    #[rustfmt::skip]
    let cases: [(&str, SmallCluster, PlanChange<'_>, &str); 7] = [
        ("node",     on_node(),  &|_, plan| plan.existing_nodes[0].0 = NodeId(9),               "there is no node 9"),
        ("pool",     on_claim(), &|_, plan| plan.claims[0].pool = PoolId(9),              "there is no nodepool 9"),
        ("type",     on_claim(), &|_, plan| plan.claims[0].instance_types = [9].into(),   "nodeclaim 0: there is no instance type 9"),
        ("deleting", on_node(),  &|small, _| small.snapshot.nodes[0].is_deleting = true,  "node a takes no pods"),
        ("without",  on_node(),  &|small, _| small.excluded_nodes = [NodeId(0)].into(),          "node a takes no pods"),
        ("no types", on_claim(), &|_, plan| plan.claims[0].instance_types = [].into(),    "nodeclaim 0 has no pods or no instance types"),
        ("no pods",  on_claim(), &|_, plan| plan.claims[0].pods.clear(),                  "nodeclaim 0 has no pods or no instance types"),
    ];
    for (case, small, change, expected) in cases {
        let found = violations_after(small, change);
        assert!(found.contains(&expected.to_owned()), "{case}: {found:?}");
    }
}

#[test]
fn taints_labels_and_volumes_must_allow_the_target() {
    let lost = |small: &mut SmallCluster, _: &mut Plan| {
        small.snapshot.pods[0].volume_claims.push("data".to_owned());
    };
    let elsewhere = |small: &mut SmallCluster, plan: &mut Plan| {
        lost(small, plan);
        let (name, claim) = (
            "pv".to_owned(),
            VolumeClaim { volume_name: "pv".to_owned(), ..VolumeClaim::default() },
        );
        small.snapshot.volumes.claims.insert(("default".to_owned(), "data".to_owned()), claim);
        let node_affinity = vec![labelled(&[(ZONE, "c")])];
        small
            .snapshot
            .volumes
            .volumes
            .insert(name, PersistentVolume { node_affinity, ..PersistentVolume::default() });
    };
    let tainted = |small: &mut SmallCluster, _: &mut Plan| {
        small.snapshot.pools[0].taints.push(taint());
        small.snapshot.nodes.iter_mut().for_each(|node| node.taints.push(taint()));
    };
    let selecting = |small: &mut SmallCluster, _: &mut Plan| {
        change_spec(small, "web-0", |spec| spec.node_selector.add(in_values(ZONE, &["c"])));
    };
    let terms = |small: &mut SmallCluster, _: &mut Plan| {
        let terms: Vec<Requirements> = vec![labelled(&[(ZONE, "b")]), labelled(&[(ZONE, "c")])];
        change_spec(small, "web-0", |spec| spec.node_affinity = terms);
    };
    let open = "default/web-0 does not allow the labels of nodeclaim 0";
    let node = "default/web-0 does not allow the labels of node a";
    #[rustfmt::skip]
    let cases: [(&str, SmallCluster, PlanChange<'_>, &str); 10] = [
        ("taint, claim",    on_claim(), &tainted,   "default/web-0 does not tolerate team:NoSchedule of nodeclaim 0"),
        ("taint, node",     on_node(),  &tainted,   "default/web-0 does not tolerate team:NoSchedule of node a"),
        ("selector, claim", on_claim(), &selecting, open),
        ("selector, node",  on_node(),  &selecting, node),
        ("terms, claim",    on_claim(), &terms,     open),
        ("terms, node",     on_node(),  &terms,     node),
        ("volume, claim",   on_claim(), &elsewhere, "the volumes of default/web-0 do not allow nodeclaim 0"),
        ("volume, node",    on_node(),  &elsewhere, "the volumes of default/web-0 do not allow node a"),
        ("volume is gone",  on_node(),  &lost,      "the volumes of default/web-0 do not allow node a"),
        ("too wide",        on_claim(), &|small, plan| {
            change_spec(small, "web-0", |spec| spec.node_selector.add(in_values(ZONE, &["c"])));
            requirements(plan, 0, &in_values(ZONE, &["b", "c"]));
        }, open),
    ];
    for (case, small, change, expected) in cases {
        let found = violations_after(small, change);
        assert_eq!(found, [expected], "{case}");
    }
}

#[test]
fn prefer_no_schedule_taints_and_preferences_are_not_violations() {
    let found = violations_after(on_node(), |small, _| {
        let soft = Taint { effect: TaintEffect::PreferNoSchedule, ..taint() };
        small.snapshot.nodes[0].taints.push(soft);
        change_spec(small, "web-0", |spec| {
            let term = labelled(&[(ZONE, "x")]);
            spec.preferred_node_affinity.push(crate::pod::WeightedTerm { weight: 1, term });
        });
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn requests_of_pods_and_daemons_must_fit() {
    let cpu =
        |millis| move |spec: &mut PodSpec| spec.requests.set("cpu", Quantity::from_millis(millis));
    let gpu = |spec: &mut PodSpec| spec.requests.set("gpu", Quantity::from_units(1));
    #[rustfmt::skip]
    let cases: [(&str, SmallCluster, PlanChange<'_>, &[&str]); 8] = [
        ("node",      on_node(), &|small, _| change_spec(small, "web-0", cpu(2500)), &["node a has too little cpu"]),
        ("not there", on_node(), &|small, _| change_spec(small, "web-0", gpu),       &["node a has too little gpu"]),
        ("bound",     on_node().bound("old", 1000, "a"), &|small, _| change_spec(small, "old-0", cpu(1600)),
            &["node a has too little cpu"]),
        ("daemon",    on_node(), &|small, _| small.snapshot.daemons.push(daemon("agent", 1600, |_| ())),
            &["node a has too little cpu"]),
        ("one type",  on_claim(), &|small, _| change_spec(small, "web-0", cpu(2500)),
            &["nodeclaim 0 asks for less cpu than its pods", "nodeclaim 0: two is too small"]),
        ("daemon",    on_claim(), &|small, _| small.snapshot.daemons.push(daemon("agent", 1600, |_| ())),
            &["nodeclaim 0: two is too small"]),
        ("no offering", on_claim(), &|_, plan| requirements(plan, 0, &in_values(ZONE, &["x"])),
            &["nodeclaim 0: two cannot be launched", "nodeclaim 0: four cannot be launched"]),
        ("unavailable", on_claim(), &|small, _| {
            *small = small.clone().types_with(|own| Arc::make_mut(&mut own.offerings).iter_mut().for_each(|o| o.available = own.name == "two"));
        }, &["nodeclaim 0: four cannot be launched"]),
    ];
    for (case, small, change, expected) in cases {
        assert_eq!(violations_after(small, change), expected, "{case}");
    }
}

#[test]
fn host_ports_must_not_conflict() {
    let both = |small: &mut SmallCluster, _: &mut Plan| {
        let ids = 0..small.snapshot.pods.len();
        ids.for_each(|id| {
            Arc::make_mut(&mut small.snapshot.pods[id].spec).host_ports.push(port());
        });
    };
    let claim = "default/web-0 and default/web-1 want one port of nodeclaim 0";
    assert_eq!(violations_after(on_claim().pods("web", 500, 0), both), Vec::<String>::new());
    let two = SmallCluster::new(&[("four", 4, 0.4)]).pods("web", 500, 2);
    assert_eq!(violations_after(two, both), [claim]);
    let bound = on_node().bound("old", 100, "a");
    assert_eq!(
        violations_after(bound, both),
        ["default/web-0 and default/old-0 want one port of node a"]
    );
    let with_daemon = violations_after(on_claim(), |small, plan| {
        both(small, plan);
        small.snapshot.daemons.push(daemon("agent", 100, |spec| spec.host_ports.push(port())));
    });
    assert_eq!(with_daemon, ["default/web-0 and default/agent want one port of nodeclaim 0"]);
}

#[test]
fn volume_limits_must_be_kept() {
    let claim = |small: &mut SmallCluster| {
        let claim = VolumeClaim { volume_name: "pv".to_owned(), ..VolumeClaim::default() };
        small.snapshot.volumes.claims.insert(("default".to_owned(), "data".to_owned()), claim);
        let volume =
            PersistentVolume { driver: Some("ebs".to_owned()), ..PersistentVolume::default() };
        small.snapshot.volumes.volumes.insert("pv".to_owned(), volume);
        small.snapshot.pods[0].volume_claims.push("data".to_owned());
    };
    let on_claim = violations_after(on_claim(), |small, _| {
        claim(small);
        *small = small.clone().volume_limit("ebs", 0);
    });
    assert_eq!(on_claim, ["nodeclaim 0 cannot attach so many volumes of ebs"]);
    let on_node = violations_after(on_node(), |small, _| {
        claim(small);
        small.snapshot.nodes[0].published_volume_limits.insert("ebs".to_owned(), Some(0));
    });
    assert_eq!(on_node, ["node a cannot attach so many volumes of ebs"]);
}

#[test]
fn anti_affinity_must_hold_both_ways_in_all_possible_domains() {
    let lone =
        |key: &'static str| move |spec: &mut PodSpec| spec.pod_anti_affinity.push(term(key, "web"));
    let kept = |pod: &str, other: &str, key: &str| {
        format!("default/{pod} keeps default/{other} away, and both may be in one {key}")
    };
    let one_claim = || SmallCluster::new(&[("four", 4, 0.4)]).pod("web", 500).pod("lone", 400);
    let found =
        violations_after(one_claim(), |small, _| change_spec(small, "lone-0", lone(HOSTNAME)));
    assert_eq!(found, [kept("lone-0", "web-0", HOSTNAME)]);
    let found = violations_after(one_claim(), |small, _| change_spec(small, "lone-0", lone(ZONE)));
    assert_eq!(found, [kept("lone-0", "web-0", ZONE)]);

    let two_claims = || SmallCluster::new(&[("two", 2, 0.2)]).pod("web", 1500).pod("lone", 1400);
    let found =
        violations_after(two_claims(), |small, _| change_spec(small, "lone-0", lone(HOSTNAME)));
    assert_eq!(found, Vec::<String>::new());
    let found = violations_after(two_claims(), |small, plan| {
        change_spec(small, "lone-0", lone(ZONE));
        requirements(plan, 0, &in_values(ZONE, &["a", "b"]));
        requirements(plan, 1, &in_values(ZONE, &["b", "c"]));
    });
    assert_eq!(found, [kept("lone-0", "web-0", ZONE)]);

    let bound = || on_node().bound("lone", 100, "a");
    let found = violations_after(bound(), |small, _| change_spec(small, "lone-0", lone(HOSTNAME)));
    assert_eq!(found, [kept("lone-0", "web-0", HOSTNAME)], "the owner was there before");
    let found = violations_after(bound(), |small, _| {
        change_spec(small, "lone-0", lone(HOSTNAME));
        small.snapshot.pods[1].terminating = true;
    });
    assert_eq!(found, Vec::<String>::new(), "it is about to go");
}

#[test]
fn pod_affinity_needs_a_matching_pod_in_every_possible_domain() {
    let needs = |key: &'static str, name: &'static str| {
        move |spec: &mut PodSpec| spec.pod_affinity.push(term(key, name))
    };
    let without = format!("default/web-0 may be in a {ZONE} without the pods that it needs");
    let two_claims = || SmallCluster::new(&[("two", 2, 0.2)]).pod("db", 1500).pod("web", 1400);
    let found = violations_after(two_claims(), |small, plan| {
        change_spec(small, "web-0", needs(ZONE, "db"));
        requirements(plan, 0, &in_values(ZONE, &["a"]));
        requirements(plan, 1, &in_values(ZONE, &["b"]));
    });
    assert_eq!(found, [&without[..]], "elsewhere");
    let found = violations_after(two_claims(), |small, plan| {
        change_spec(small, "web-0", needs(ZONE, "db"));
        requirements(plan, 0, &in_values(ZONE, &["a", "b"]));
        requirements(plan, 1, &in_values(ZONE, &["a"]));
    });
    assert_eq!(found, [&without[..]], "not surely there");
    let found = violations_after(two_claims(), |small, plan| {
        change_spec(small, "web-0", needs(ZONE, "db"));
        requirements(plan, 0, &in_values(ZONE, &["a"]));
        requirements(plan, 1, &in_values(ZONE, &["a"]));
    });
    assert_eq!(found, Vec::<String>::new());

    let pinned = |small: &mut SmallCluster, plan: &mut Plan| {
        change_spec(small, "web-0", needs(ZONE, "web"));
        requirements(plan, 0, &in_values(ZONE, &["b"]));
    };
    assert_eq!(violations_after(on_claim(), pinned), Vec::<String>::new(), "the first of its kind");
    let second = on_claim().node("full", 1, |_| ()).bound("old", 1000, "full");
    let found = violations_after(second, |small, plan| {
        pinned(small, plan);
        small.snapshot.pods[1].labels = small.snapshot.pods[0].labels.clone();
    });
    assert_eq!(found, [&without[..]], "there is one in zone a");
}

#[test]
fn topology_spread_must_not_exceed_max_skew() {
    let with = |key: &'static str| {
        move |spec: &mut PodSpec| spec.topology_spread.push(spread(key, 1, "web"))
    };
    let crowded = |key, domain| format!("too many pods like default/web-0 in {key} {domain}");
    let both = |small: &mut SmallCluster, key| {
        change_spec(small, "web-0", with(key));
        change_spec(small, "web-1", with(key));
    };
    let one_claim = || SmallCluster::new(&[("four", 4, 0.4)]).pods("web", 500, 2);
    let found = violations_after(one_claim(), |small, _| both(small, HOSTNAME));
    assert_eq!(found, [crowded(HOSTNAME, "nodeclaim/0")]);
    let found = violations_after(one_claim(), |small, plan| {
        both(small, ZONE);
        requirements(plan, 0, &in_values(ZONE, &["a"]));
    });
    assert_eq!(found, [crowded(ZONE, "a")]);
    // The second pod only matches: it may have come later.
    let found = violations_after(one_claim(), |small, plan| {
        change_spec(small, "web-0", with(ZONE));
        requirements(plan, 0, &in_values(ZONE, &["a"]));
    });
    assert_eq!(found, Vec::<String>::new());
    // A pod that was there before has come before.
    let with_bound = on_node().bound("web-old", 100, "a");
    let found = violations_after(with_bound, |small, _| change_spec(small, "web-0", with(ZONE)));
    assert_eq!(found, [crowded(ZONE, "a")]);
}

#[test]
fn pod_affinity_and_spread_need_a_known_domain() {
    let lost = [format!("default/web-0 is in no known {ZONE}")];
    let found = violations_after(on_claim(), |small, _| {
        change_spec(small, "web-0", |spec| spec.pod_affinity.push(term(ZONE, "web")));
    });
    assert_eq!(found, lost, "affinity");
    let found = violations_after(on_claim(), |small, plan| {
        change_spec(small, "web-0", |spec| spec.topology_spread.push(spread(ZONE, 1, "web")));
        requirements(plan, 0, &in_values(ZONE, &["a", "b"]));
    });
    assert_eq!(found, lost, "spread");
}

#[test]
fn limits_reservations_and_min_values_must_be_kept() {
    let limited = |resource: &'static str, units| {
        violations_after(on_claim(), move |small: &mut SmallCluster, _: &mut Plan| {
            small.snapshot.pools[0].limits.set(resource, Quantity::from_units(units));
        })
    };
    assert_eq!(limited("cpu", 3), ["nodepool default exceeds its limit of cpu"]);
    assert_eq!(limited("cpu", 4), Vec::<String>::new());
    assert_eq!(limited(NODES, 0), ["nodepool default exceeds its limit of nodes"]);

    let reserved = SmallCluster::new(&[("two", 2, 0.2)]).reserved("res", 2).pods("web", 1500, 2);
    let found = violations_after(reserved, |small, _| {
        *small = small.clone().types_with(|own| {
            for offering in Arc::make_mut(&mut own.offerings) {
                offering.reservation_capacity = offering.reservation_capacity.min(1);
            }
        });
    });
    assert_eq!(found, ["reservation res is promised too often"]);

    let found = violations_after(on_claim(), |_, plan| {
        let any = Requirement::exists("node.kubernetes.io/instance-type");
        requirements(plan, 0, &any.with_min_values(Some(3)));
    });
    assert_eq!(found, ["nodeclaim 0 misses minValues"]);
}

/// The essential level finds what costs little to find.
#[test]
fn the_essential_level_leaves_out_topology_and_offerings() {
    let cpu =
        |millis| move |spec: &mut PodSpec| spec.requests.set("cpu", Quantity::from_millis(millis));
    #[rustfmt::skip]
    let cases: [(&str, SmallCluster, PlanChange<'_>, bool); 9] = [
        ("placed twice",     on_claim(), &|_, plan| plan.claims[0].pods.push(PodId(0)),                true),
        ("node is deleting", on_node(),  &|small, _| small.snapshot.nodes[0].is_deleting = true,       true),
        ("taint",            on_node(),  &|small, _| small.snapshot.nodes[0].taints.push(taint()),     true),
        ("node is full",     on_node(),  &|small, _| change_spec(small, "web-0", cpu(2500)),           true),
        ("type is small",    on_claim(), &|small, _| change_spec(small, "web-0", cpu(2500)),           true),
        ("selector",         on_claim(), &|small, _| {
            change_spec(small, "web-0", |spec| spec.node_selector.add(in_values(ZONE, &["c"])));
        }, true),
        ("daemon",           on_claim(), &|small, _| small.snapshot.daemons.push(daemon("agent", 1600, |_| ())), false),
        ("no offering",      on_claim(), &|_, plan| requirements(plan, 0, &in_values(ZONE, &["x"])),   false),
        ("no known domain",  on_claim(), &|small, _| {
            change_spec(small, "web-0", |spec| spec.pod_affinity.push(term(ZONE, "web")));
        }, false),
    ];
    for (case, mut small, change, is_essential) in cases {
        let mut plan = small.solve();
        change(&mut small, &mut plan);
        let essential = small.violations_of_level(&plan, Level::Essential);
        let complete = small.violations_of_level(&plan, Level::Complete);
        assert_eq!(!essential.is_empty(), is_essential, "{case}: {essential:?}");
        assert!(!complete.is_empty(), "{case}");
    }
}
