//! Tests of the reference solver on small clusters, one per area. Every plan is verified.

mod random;
pub(crate) mod small_cluster;

use small_cluster::{
    CUSTOM, HOSTNAME, RESERVATION, SmallCluster, ZONE, daemon, in_values, labelled, memory, spread,
    term,
};

use crate::host_port::HostPort;
use crate::pod::{Phase, WeightedTerm};
use crate::requirement::Requirement;
use crate::resources::{NODES, Quantity};
use crate::scheduling::{MinValuesPolicy, PreferencePolicy, ReservedMode};
use crate::taint::{Taint, TaintEffect, Toleration};
use crate::volume::{PersistentVolume, VolumeClaim};

fn taint(key: &str, effect: TaintEffect) -> Taint {
    Taint { key: key.to_owned(), value: String::new(), effect }
}

#[test]
fn a_pod_opens_a_claim_with_every_type_that_holds_it_cheapest_first() {
    let small = SmallCluster::new(&[("large", 8, 0.8), ("small", 2, 0.2), ("tiny", 1, 0.1)])
        .pod("web", 1500);
    let plan = small.solve();
    assert_eq!(plan.claims.len(), 1);
    assert_eq!(small.types(&plan.claims[0]), ["small", "large"]);
    assert_eq!(plan.claims[0].lowest_price, Some(0.2));
}

#[test]
fn larger_pods_come_first_and_the_emptiest_claim_is_filled_first() {
    let small = SmallCluster::new(&[("four", 4, 0.4)]).pod("small", 400).pods("big", 2500, 2);
    let plan = small.solve();
    assert_eq!(small.placed(&plan), ["big-0 small-0", "big-1"], "equal counts keep their order");
}

#[test]
fn heavier_nodepools_and_later_names_are_tried_first() {
    let world = |weights: [Option<i32>; 2]| {
        SmallCluster::empty()
            .pool("np-1", &[("two", 2, 0.2)], |pool| pool.weight = weights[0])
            .pool("np-2", &[("two", 2, 0.2)], |pool| pool.weight = weights[1])
            .pod("web", 1000)
    };
    for (case, weights, expected) in
        [("20/B23", [None, None], "np-2"), ("20/B21", [Some(10), Some(1)], "np-1")]
    {
        let small = world(weights);
        let plan = small.solve();
        assert_eq!(small.snapshot.pool(plan.claims[0].pool).name, expected, "{case}");
    }
}

#[test]
fn existing_nodes_with_free_capacity_are_tried_before_new_ones() {
    let small = SmallCluster::new(&[("two", 2, 0.2)])
        .node("b", 4, |_| ())
        .node("a", 4, |node| node.is_initialized = false)
        .pods("web", 1500, 4);
    assert_eq!(small.placed(&small.solve()), ["b: web-0 web-1", "a: web-2 web-3"], "20/C2");
}

#[test]
fn bound_pods_and_expected_daemons_use_node_capacity() {
    let small = SmallCluster::new(&[("two", 2, 0.2)])
        .node("a", 4, |_| ())
        .bound("old", 1000, "a")
        .with(|snapshot| snapshot.daemons.push(daemon("agent", 1000, |_| ())))
        .pods("web", 1000, 3);
    assert_eq!(small.placed(&small.solve()), ["a: web-0 web-1", "web-2"], "20/C7");
}

#[test]
fn daemon_overhead_is_per_instance_type_and_requested_once() {
    let only_large = |spec: &mut crate::pod::PodSpec| {
        spec.node_selector.add(in_values("node.kubernetes.io/instance-type", &["large"]));
    };
    let small = SmallCluster::new(&[("small", 2, 0.2), ("large", 8, 0.8)])
        .with(|snapshot| snapshot.daemons.push(daemon("agent", 7000, only_large)))
        .pod("web", 1500);
    let plan = small.solve();
    assert_eq!(small.types(&plan.claims[0]), ["small"], "20/C14");
    assert_eq!(plan.claims[0].requests.amount("cpu"), Quantity::from_millis(1500));

    let everywhere = SmallCluster::new(&[("large", 8, 0.8)])
        .with(|snapshot| snapshot.daemons.push(daemon("agent", 1000, |_| ())))
        .pods("web", 1000, 2);
    let plan = everywhere.solve();
    assert_eq!(plan.claims[0].requests.amount("cpu"), Quantity::from_millis(3000), "20/E6");
    assert_eq!(plan.claims[0].requests.amount("pods"), Quantity::from_units(3), "20/E6");
}

#[test]
fn taints_and_host_ports_keep_pods_apart() {
    let port = HostPort { ip: "0.0.0.0".to_owned(), port: 80, protocol: "TCP".to_owned() };
    let small = SmallCluster::new(&[("four", 4, 0.4)])
        .pods_with("web", 100, 2, |_, spec| spec.host_ports.push(port.clone()));
    assert_eq!(small.placed(&small.solve()), ["web-0", "web-1"], "20/C18");

    let tainted = SmallCluster::empty()
        .pool("default", &[("four", 4, 0.4)], |pool| {
            pool.taints.push(taint("team", TaintEffect::NoSchedule));
        })
        .pod("web", 100);
    let texts = tainted.rejections(&tainted.solve());
    assert_eq!(texts, ["web-0: did not tolerate taint (taint=team:NoSchedule)"]);
}

#[test]
fn preferences_are_given_up_one_by_one() {
    let weighted = |weight, zone| WeightedTerm { weight, term: labelled(&[(ZONE, zone)]) };
    let world = |preferred: Vec<_>| {
        SmallCluster::new(&[("four", 4, 0.4)])
            .pods_with("web", 100, 1, |_, spec| spec.preferred_node_affinity = preferred.clone())
    };
    let zone_of = |small: &SmallCluster| {
        let plan = small.solve();
        plan.claims[0].requirements.get(ZONE).cloned()
    };
    let preferred = vec![weighted(1, "a"), weighted(100, "x"), weighted(50, "b")];
    assert_eq!(zone_of(&world(preferred.clone())), Some(in_values(ZONE, &["b"])), "20/C46");
    let ignored = world(preferred).options(|o| o.preferences = PreferencePolicy::Ignore);
    assert_eq!(zone_of(&ignored), None, "20/C50");
}

#[test]
fn the_last_required_term_is_never_given_up() {
    let world = |zones: &[&str]| {
        let terms: Vec<_> = zones.iter().map(|zone| labelled(&[(ZONE, zone)])).collect();
        SmallCluster::new(&[("four", 4, 0.4)])
            .pods_with("web", 100, 1, |_, spec| spec.node_affinity = terms.clone())
    };
    assert_eq!(world(&["x", "y", "a", "b"]).solve().claims.len(), 1, "20/C44");
    let refused = world(&["x"]);
    assert_eq!(refused.solve().rejected.len(), 1, "20/C45");
}

#[test]
fn prefer_no_schedule_is_tolerated_as_the_last_relaxation() {
    let small = SmallCluster::empty()
        .pool("default", &[("four", 4, 0.4)], |pool| {
            pool.taints.push(taint("soft", TaintEffect::PreferNoSchedule));
        })
        .pod("web", 100);
    assert_eq!(small.solve().claims.len(), 1, "20/C49");
}

#[test]
fn zones_are_filled_evenly_and_the_cheapest_of_equals_first() {
    let small = SmallCluster::new(&[("four", 4, 0.4)]).price("b", 0.1).pods_with(
        "web",
        3000,
        4,
        |_, spec| spec.topology_spread.push(spread(ZONE, 1, "web")),
    );
    let zones: Vec<String> = SmallCluster::zones(&small.solve());
    assert_eq!(zones, ["b", "a", "c", "b"], "20/D1, 20/G11");
}

#[test]
fn spread_over_hosts_opens_a_claim_for_each_pod() {
    let small = SmallCluster::new(&[("four", 4, 0.4)])
        .pods_with("web", 100, 3, |_, spec| spec.topology_spread.push(spread(HOSTNAME, 1, "web")));
    assert_eq!(small.solve().claims.len(), 3, "20/D3");
}

#[test]
fn spread_groups_count_with_the_node_filter_of_each_pod() {
    // The pods of one set only count one zone, so they are never uneven.
    let in_zone = |zone: &'static str| {
        move |_: &mut crate::pod::Pod, spec: &mut crate::pod::PodSpec| {
            spec.topology_spread.push(spread(ZONE, 1, "web"));
            spec.node_selector.add(in_values(ZONE, &[zone]));
        }
    };
    let small = SmallCluster::new(&[("four", 4, 0.4)])
        .pods_with("web-a", 3000, 2, in_zone("a"))
        .pods_with("web-b", 3000, 4, in_zone("b"));
    assert_eq!(small.solve().rejected.len(), 0, "20/D27, 20/G4");
}

#[test]
fn a_new_group_of_a_relaxed_pod_counts_earlier_placements() {
    // The first term is impossible, so every pod ends up with a new group of the second one.
    let terms = vec![labelled(&[(ZONE, "x")]), labelled(&[("kubernetes.io/arch", "amd64")])];
    let small = SmallCluster::new(&[("four", 4, 0.4)]).pods_with("web", 3000, 6, |_, spec| {
        spec.topology_spread.push(spread(ZONE, 1, "web"));
        spec.node_affinity = terms.clone();
    });
    let mut zones = SmallCluster::zones(&small.solve());
    zones.sort();
    assert_eq!(zones, ["a", "a", "b", "b", "c", "c"], "20/G6");
}

#[test]
fn self_affinity_stays_in_one_zone() {
    let small = SmallCluster::new(&[("two", 2, 0.2)])
        .pods_with("web", 1500, 3, |_, spec| spec.pod_affinity.push(term(ZONE, "web")));
    assert_eq!(SmallCluster::zones(&small.solve()), ["a", "a", "a"], "20/D34, 20/G8");
}

#[test]
fn affinity_is_retried_while_other_pods_are_being_placed() {
    let needs = |app: &'static str| {
        move |_: &mut crate::pod::Pod, spec: &mut crate::pod::PodSpec| {
            spec.pod_affinity.push(term(HOSTNAME, app));
        }
    };
    let small = SmallCluster::new(&[("eight", 8, 0.8)])
        .pods_with("ui", 400, 1, needs("cache"))
        .pods_with("cache", 300, 1, needs("web"))
        .pods_with("web", 200, 1, needs("db"))
        .pod("db", 100);
    assert_eq!(small.placed(&small.solve()), ["db-0 web-0 cache-0 ui-0"], "20/C68");
    let lonely = SmallCluster::new(&[("eight", 8, 0.8)]).pods_with("web", 200, 1, needs("db"));
    assert_eq!(
        lonely.rejections(&lonely.solve()),
        ["web-0: unsatisfiable topology constraint for pod affinity, key=kubernetes.io/hostname \
          (counts = , podDomains = kubernetes.io/hostname Exists, nodeDomains = \
          kubernetes.io/hostname In [hostname-placeholder-0001]"],
        "20/C69"
    );
}

#[test]
fn anti_affinity_works_both_ways() {
    let alone = |_: &mut crate::pod::Pod, spec: &mut crate::pod::PodSpec| {
        spec.pod_anti_affinity.push(term(HOSTNAME, "web"));
    };
    let small = SmallCluster::new(&[("eight", 8, 0.8)]).pods_with("web", 100, 3, alone);
    assert_eq!(small.solve().claims.len(), 3, "20/D39");
    // The large pod is placed first and has no rule itself.
    let inverse =
        SmallCluster::new(&[("eight", 8, 0.8)]).pod("web", 500).pods_with("lone", 100, 1, alone);
    assert_eq!(inverse.solve().claims.len(), 2, "20/D39");
    let zonal = SmallCluster::new(&[("eight", 8, 0.8)]).pods_with("web", 100, 3, |_, spec| {
        spec.pod_anti_affinity.push(term(ZONE, "web"));
    });
    assert_eq!(zonal.solve().rejected.len(), 2, "20/D44: the first may be anywhere");
}

#[test]
fn constraints_that_contradict_each_other_are_not_met_by_a_node_without_the_label() {
    let small = SmallCluster::new(&[("eight", 8, 0.8)])
        .pool("labelled", &[("eight", 8, 0.8)], |pool| {
            pool.labels.insert(CUSTOM.to_owned(), "red".to_owned());
        })
        .node("bare", 8, |_| ())
        .pods_with("lone", 500, 1, |_, spec| spec.pod_anti_affinity.push(term(CUSTOM, "web")))
        .pods_with("web", 100, 1, |_, spec| spec.pod_affinity.push(term(CUSTOM, "lone")));
    let plan = small.solve();
    assert_eq!(small.placed(&plan), ["lone-0"]);
    assert_eq!(plan.rejected.len(), 1);
}

#[test]
fn anti_affinity_of_bound_pods_protects_them() {
    let small = SmallCluster::new(&[("eight", 8, 0.8)])
        .node("a", 8, |_| ())
        .bound_with("lone", 100, "a", |spec| spec.pod_anti_affinity.push(term(HOSTNAME, "web")))
        .pod("web", 100);
    assert_eq!(small.placed(&small.solve()), ["web-0"], "20/D42");
}

#[test]
fn limits_assume_the_largest_instance_type() {
    let small = SmallCluster::empty()
        .pool("default", &[("two", 2, 0.2), ("three", 3, 0.3)], |pool| {
            pool.limits.set("cpu", Quantity::from_units(3));
        })
        .pods_with("web", 1500, 2, |_, spec| spec.pod_anti_affinity.push(term(HOSTNAME, "web")));
    let plan = small.solve();
    assert_eq!((plan.claims.len(), plan.rejected.len()), (1, 1), "20/C27");
    let text = "web-1: all available instance types exceed limits for nodepool (NodePool=default)";
    assert_eq!(small.rejections(&plan), [text], "20/C27");

    let no_nodes = SmallCluster::empty()
        .pool("default", &[("two", 2, 0.2)], |pool| pool.limits.set(NODES, Quantity::ZERO))
        .pod("web", 100);
    let text = "web-0: node limits have been exhausted for nodepool (NodePool=default)";
    assert_eq!(no_nodes.rejections(&no_nodes.solve()), [text], "20/C29");
}

#[test]
fn min_values_are_enforced_or_lowered_by_policy() {
    let world = |policy| {
        SmallCluster::empty()
            .pool("default", &[("two", 2, 0.2), ("four", 4, 0.4)], |pool| {
                let any = Requirement::exists("node.kubernetes.io/instance-type");
                pool.requirements.add(any.with_min_values(Some(3)));
            })
            .pod("web", 100)
            .options(|options| options.min_values = policy)
    };
    let strict = world(MinValuesPolicy::Strict).solve();
    assert_eq!(
        (strict.claims.len(), strict.unusable_pools[0].misses_min_values),
        (0, true),
        "20/C32"
    );
    let best_effort = world(MinValuesPolicy::BestEffort).solve();
    assert!(best_effort.claims[0].min_values_relaxed, "20/C32");
    let types = best_effort.claims[0].requirements.get("node.kubernetes.io/instance-type");
    assert_eq!(types.and_then(Requirement::min_values), Some(2), "20/C32");
}

#[test]
fn held_reserved_capacity_defers_other_pods() {
    let world = |mode| {
        SmallCluster::new(&[("four", 4, 0.4)])
            .reserved("res-1", 1)
            .pods_with("web", 100, 2, |_, spec| {
                spec.topology_spread.push(spread(HOSTNAME, 1, "web"));
            })
            .options(|options| options.reserved_mode = mode)
    };
    let small = world(ReservedMode::Strict);
    let plan = small.solve();
    assert_eq!(plan.claims[0].reservations, ["res-1"], "45/RS-3");
    let held = plan.claims[0].requirements.get(RESERVATION);
    assert_eq!(held, Some(&in_values(RESERVATION, &["res-1"])), "20/E9");
    assert!(plan.rejected.values().all(|rejection| rejection.waits_for_reservation()), "20/C38");
    assert_eq!(plan.rejected.len(), 1, "20/C38");
    let plan = world(ReservedMode::Fallback).solve();
    assert_eq!(plan.claims.len(), 2);
    assert!(plan.claims[1].reservations.is_empty());
}

#[test]
fn volumes_pin_the_zone_and_count_against_attach_limits() {
    let volume = |zone| PersistentVolume {
        driver: Some("ebs".to_owned()),
        node_affinity: vec![labelled(&[(ZONE, zone)])],
        ..PersistentVolume::default()
    };
    let claim = |name: &str| VolumeClaim {
        volume_name: name.to_owned(),
        is_bind_completed: true,
        ..VolumeClaim::default()
    };
    let small = SmallCluster::new(&[("eight", 8, 0.8)])
        .volume_limit("ebs", 1)
        .with(|snapshot| {
            for name in ["one", "two"] {
                let key = ("default".to_owned(), name.to_owned());
                snapshot.volumes.claims.insert(key, claim(name));
                snapshot.volumes.volumes.insert(name.to_owned(), volume("c"));
            }
        })
        .pods_with("web", 100, 3, |pod, _| {
            pod.volume_claims.push(if pod.name == "web-0" { "one" } else { "two" }.to_owned());
        });
    let plan = small.solve();
    assert_eq!(small.placed(&plan), ["web-0", "web-1 web-2"], "45/VL-1, 45/VL-2");
    assert_eq!(SmallCluster::zones(&plan), ["c", "c"], "20/C52");

    let gone = SmallCluster::new(&[("eight", 8, 0.8)])
        .pods_with("web", 100, 1, |pod, _| pod.volume_claims.push("missing".to_owned()));
    let plan = gone.solve();
    assert_eq!((plan.claims.len(), plan.rejected.len()), (0, 1), "20/Q17");
}

#[test]
fn pods_with_resource_claims_are_rejected_without_an_attempt() {
    let small = SmallCluster::new(&[("eight", 8, 0.8)])
        .pods_with("web", 100, 1, |_, spec| spec.requests_dynamic_resources = true);
    let texts = small.rejections(&small.solve());
    assert_eq!(texts.len(), 1, "20/C64");
    assert!(texts[0].contains("not yet supported"), "20/C64: {texts:?}");
}

#[test]
fn resource_rejections_list_requirements_and_requests() {
    let small = SmallCluster::new(&[("two", 2, 0.2)]).pods_with("web", 3000, 1, |_, spec| {
        spec.requests.set("memory", memory(1));
    });
    assert_eq!(
        small.rejections(&small.solve()),
        ["web-0: no instance type has enough resources, requirements=\
          example.com/fakeclass In [default], karpenter.sh/initialized In [true], \
          karpenter.sh/nodepool In [default], karpenter.sh/registered In [true], \
          resources={\"cpu\":\"3\",\"memory\":\"1Gi\",\"pods\":\"1\"}"]
    );
}

#[test]
fn without_any_usable_pool_only_existing_nodes_are_tried() {
    let small = SmallCluster::empty().node("a", 2, |_| ()).pods("web", 1500, 2);
    let plan = small.solve();
    assert_eq!(small.placed(&plan), ["a: web-0"]);
    let text = "web-1: nodepool requirements filtered out all available instance types";
    assert_eq!(small.rejections(&plan), [text], "20/C67");
}

#[test]
fn pending_pods_are_counted_by_effective_zone() {
    let pending = |zone: Option<&'static str>| {
        move |pod: &mut crate::pod::Pod, spec: &mut crate::pod::PodSpec| {
            pod.phase = Phase::Pending;
            spec.node_selector.extend(zone.map(|zone| in_values(ZONE, &[zone])));
        }
    };
    let small = SmallCluster::new(&[("eight", 8, 0.8)])
        .pods_with("b", 100, 2, pending(Some("b")))
        .pods_with("any", 100, 1, pending(None))
        .pod("virtual", 100);
    let zones = small.solve().effective_zones;
    assert_eq!(zones, [("b".to_owned(), 2), ("flexible".to_owned(), 1)].into(), "20/D53");
}

#[test]
fn an_untried_pod_has_no_rejection() {
    let small = SmallCluster::new(&[("two", 2, 0.2)]).pods("web", 1500, 3);
    let plan = small.solve_with(&mut crate::scheduling::Fuel::after_steps(2));
    assert!(plan.was_cut_short);
    assert_eq!((plan.claims.len(), plan.rejected.len()), (2, 0));
}

#[test]
fn undefined_custom_labels_are_rejected_with_a_reason() {
    let small = SmallCluster::new(&[("two", 2, 0.2)]).pods_with("web", 100, 1, |_, spec| {
        spec.node_selector.add(in_values(CUSTOM, &["x"]));
    });
    let texts = small.rejections(&small.solve());
    let text =
        "web-0: incompatible requirements, label \"example.com/team\" does not have known values";
    assert_eq!(texts, [text]);
}

#[test]
fn tolerations_allow_tainted_nodepools() {
    let small = SmallCluster::empty()
        .pool("default", &[("two", 2, 0.2)], |pool| {
            pool.taints.push(taint("team", TaintEffect::NoSchedule));
        })
        .pods_with("web", 100, 1, |_, spec| {
            spec.tolerations
                .push(Toleration { operator: "Exists".to_owned(), ..Toleration::default() });
        });
    assert_eq!(small.solve().claims.len(), 1);
}
