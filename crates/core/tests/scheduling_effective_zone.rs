//! Pending pods by the zone that is left to them (spec 20 §4.9, cases D53, D54).

use std::collections::BTreeMap;

use karpenter_core::requirement::Operator::In;
use karpenter_core::testing::{
    PodBuilder, World, ZONES, node, pod, spread, term, volume_claim, zonal_storage_class,
};

const S2: [(&str, &str); 1] = [("security", "s2")];

/// Returns a world with this many pods `security: s2` in each of three zones.
fn world_with_s2_pods(counts: [usize; 3]) -> World {
    ZONES.iter().zip(counts).fold(World::new(), |world, (zone, count)| {
        let old = pod(&format!("old-{zone}")).label("security", "s2").on_node(zone).replicas(count);
        world.node(node(zone).zone(zone)).pod(old)
    })
}

#[track_caller]
fn zones(world: World, pod: PodBuilder) -> BTreeMap<String, usize> {
    world.pod(pod).solve().plan.effective_zones
}

fn one_zone(zone: &str, count: usize) -> BTreeMap<String, usize> {
    [(zone.to_owned(), count)].into()
}

#[test]
fn constraints_allow_one_zone_several_or_none() {
    let near = |labels| pod("web").pod_affinity(term("zone").selecting(labels));
    let away = pod("web").pod_anti_affinity(term("zone").selecting(&S2));
    let spread_s2 = || spread("zone", 1).selecting(&S2);
    let marked = pod("web").label("security", "s2").spread(spread_s2());
    let full = pod("web").label("security", "s2").spread(spread_s2().min_domains(4));
    #[rustfmt::skip]
    let rows = [
        ("20/D53: free",                 [0, 0, 0], pod("web").replicas(2),                              "flexible", 2),
        ("20/D53: selector",             [0, 0, 0], pod("web").replicas(3).select("zone", ZONES[1]),     ZONES[1],   3),
        ("20/D53: preference",           [0, 0, 0], pod("web").prefer(1, "zone", In, &[ZONES[0]]),    "flexible", 1),
        ("20/D53: affinity",             [1, 0, 0], near(&S2),                                        ZONES[0],   1),
        ("20/D53: anti-affinity",        [1, 1, 0], away.clone(),                                     ZONES[2],   1),
        ("20/D53: spread",               [1, 1, 0], marked,                                           ZONES[2],   1),
        ("20/D53: impossible spread",    [2, 2, 2], full,                                             "none",     1),
        ("20/D53: impossible affinity",  [0, 0, 0], near(&[("security", "never")]),                   "none",     1),
        ("20/D53: impossible anti",      [1, 1, 1], away,                                             "none",     1),
    ];
    for (row, counts, pod, zone, count) in rows {
        assert_eq!(zones(world_with_s2_pods(counts), pod), one_zone(zone, count), "{row}");
    }
}

#[test]
fn volumes_allow_one_zone_several_or_none() {
    #[rustfmt::skip]
    let rows = [
        ("20/D54: two zones", &ZONES[..2],  pod("web"),                           "flexible"),
        ("20/D54: one zone",  &ZONES[..1],  pod("web"),                           ZONES[0]),
        ("20/D54: conflict",  &ZONES[1..2], pod("web").select("zone", ZONES[0]),  "none"),
    ];
    for (row, allowed, pod, zone) in rows {
        let world = World::new()
            .storage_class("zonal", zonal_storage_class("csi.test", allowed))
            .volume_claim("data", volume_claim("", "zonal"));
        assert_eq!(zones(world, pod.mount("data")), one_zone(zone, 1), "{row}");
    }
}

#[test]
fn only_pending_pods_are_counted() {
    let world = World::new().pods([pod("web"), pod("spare").buffer_pod()]);
    assert_eq!(world.solve().plan.effective_zones, one_zone("flexible", 1));
}
