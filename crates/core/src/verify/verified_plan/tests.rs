//! What a violation affects is dropped, and the rest of the plan stays.

use super::*;
use crate::id::{NodeId, PoolId};
use crate::requirement::Requirement;
use crate::scheduling::reference::tests::small_cluster::{
    SmallCluster, ZONE, in_values, spread, term,
};

const LEVELS: [Level; 2] = [Level::Essential, Level::Complete];

/// Two pods that need a node each: `web-0` on NodeClaim 0, `db-0` on NodeClaim 1.
fn two_claims() -> SmallCluster {
    SmallCluster::new(&[("two", 2, 0.2), ("four", 4, 0.4)]).pod("web", 2500).pod("db", 2400)
}

fn pods_to_place(small: &SmallCluster) -> Vec<PodId> {
    let pods = small.snapshot.pods.iter().enumerate();
    pods.filter(|(_, pod)| pod.node.is_none()).map(|(at, _)| PodId::new(at)).collect()
}

fn verified(small: &SmallCluster, plan: Plan, level: Level) -> VerifiedPlan {
    let pods = pods_to_place(small);
    verify_plan(&small.request(&pods), plan, level)
}

type PlanChange = fn(&mut Plan);

#[test]
fn the_affected_nodeclaim_is_dropped_and_the_other_stays() {
    #[rustfmt::skip]
    let cases: [(&str, PlanChange, &str); 8] = [
        ("too small",     |plan| plan.claims[0].instance_types = [0].into(), "nodeclaim 0: two is too small"),
        ("no types",      |plan| plan.claims[0].instance_types = [].into(),  "nodeclaim 0 has no pods or no instance types"),
        ("unknown type",  |plan| plan.claims[0].instance_types = [9].into(), "nodeclaim 0: there is no instance type 9"),
        ("unknown pool",  |plan| plan.claims[0].pool = PoolId(9),            "there is no nodepool 9"),
        ("unknown pod",   |plan| plan.claims[0].pods.push(PodId(9)),         "there is no pod 9"),
        ("twice",         |plan| plan.claims[0].pods.push(PodId(0)),         "default/web-0 is placed twice"),
        ("on two claims", |plan| { let again = plan.claims[0].clone(); plan.claims.push(again); }, "default/web-0 is placed twice"),
        ("unknown node",  |plan| {
            let claim = plan.claims.remove(0);
            plan.existing_nodes.push((NodeId(9), claim.pods));
        }, "there is no node 9"),
    ];
    for level in LEVELS {
        for (case, change, expected) in cases {
            let small = two_claims();
            let good = small.solve();
            let mut plan = good.clone();
            change(&mut plan);
            let VerifiedPlan { plan, violations, dropped } = verified(&small, plan, level);
            assert_eq!(violations[0].to_string(), expected, "{case}");
            assert_eq!(plan.claims, good.claims[1..], "{case}: the other NodeClaim stays");
            assert_eq!(plan.existing_nodes, [], "{case}");
            let rejected: Vec<_> = plan.rejected.iter().collect();
            let [(&PodId(0), reason)] = rejected[..] else { panic!("{case}: {rejected:?}") };
            let text = "planned placement violates a rule, this is a bug: ".to_owned() + expected;
            assert_eq!(reason.to_string(), text, "{case}");
            let pods: BTreeSet<PodId> = dropped.iter().flat_map(|one| one.pods.clone()).collect();
            assert_eq!(pods, [PodId(0)].into(), "{case}");
            assert_eq!(verified(&small, plan, level).violations, [], "{case}");
        }
    }
}

#[test]
fn a_correct_plan_stays_as_it_is() {
    for level in LEVELS {
        let small = two_claims();
        let plan = small.solve();
        let expected =
            VerifiedPlan { plan: plan.clone(), violations: Vec::new(), dropped: Vec::new() };
        assert_eq!(verified(&small, plan, level), expected);
    }
}

#[test]
fn forgotten_and_unrequested_pods_are_corrected() {
    for level in LEVELS {
        let small = two_claims();
        let mut plan = small.solve();
        plan.claims.remove(0);
        let reason = Arc::new(PodRejection::NoUsablePool);
        plan.rejected.insert(PodId(9), reason);
        let found = verified(&small, plan, level);
        assert_eq!(found.plan.claims.len(), 1, "the other pod keeps its NodeClaim");
        assert_eq!(found.plan.rejected.keys().collect::<Vec<_>>(), [&PodId(0)]);
    }
}

#[test]
fn a_node_that_is_too_small_loses_its_new_pods() {
    for level in LEVELS {
        let small = two_claims().node("a", 1, |_| ());
        let mut plan = small.solve();
        let claim = plan.claims.remove(0);
        plan.existing_nodes.push((NodeId(0), claim.pods));
        let found = verified(&small, plan, level);
        assert_eq!(found.violations[0].to_string(), "node a has too little cpu");
        assert_eq!((found.plan.claims.len(), found.plan.existing_nodes.len()), (1, 0));
        let dropped = &found.dropped[0];
        assert_eq!((dropped.node.as_deref(), &dropped.pods[..]), (Some("a"), &[PodId(0)][..]));
    }
}

/// Affinity and spread are not checked again: the dropped pods were counted.
#[test]
fn a_crowded_domain_loses_all_new_pods_of_the_kind() {
    let types = [("two", 2, 0.2), ("four", 4, 0.4)];
    let mut small = SmallCluster::new(&types).pods("web", 2500, 2).pod("db", 2400);
    let mut plan = small.solve();
    assert_eq!(plan.claims.len(), 3);
    for id in [0, 1] {
        let spec = Arc::make_mut(&mut small.snapshot.pods[id].spec);
        spec.topology_spread.push(spread(ZONE, 1, "web"));
    }
    for claim in &mut plan.claims {
        let zone = in_values(ZONE, &["a"]);
        let kept = claim.requirements.iter().filter(|one| one.key() != zone.key()).cloned();
        claim.requirements = Arc::new(kept.chain([zone.clone()]).collect());
    }
    let found = verified(&small, plan.clone(), Level::Complete);
    assert_eq!(found.violations[0].rule(), "topology_spread");
    assert_eq!(found.plan.claims.len(), 1, "{:?}", found.violations);
    assert_eq!(found.plan.claims[0].pods, [PodId(2)]);
    assert_eq!(verified(&small, plan, Level::Essential).violations, [], "only complete");
}

#[test]
fn pods_that_keep_each_other_away_are_both_dropped() {
    let mut small = two_claims();
    let mut plan = small.solve();
    let spec = Arc::make_mut(&mut small.snapshot.pods[0].spec);
    spec.pod_anti_affinity.push(term(ZONE, "db"));
    for claim in &mut plan.claims {
        let kept = claim.requirements.iter().filter(|one| one.key() != ZONE).cloned();
        let zone: Requirement = in_values(ZONE, &["a"]);
        claim.requirements = Arc::new(kept.chain([zone]).collect());
    }
    let found = verified(&small, plan, Level::Complete);
    assert_eq!(found.plan.claims, []);
    assert_eq!(found.plan.rejected.len(), 2);
}
