//! Generates instance types, NodePools and node requirements of random worlds.

use karpenter_core::catalog::Offering;
use karpenter_core::requirement::Operator::{
    self, DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn,
};
use karpenter_core::testing::{
    PoolBuilder, TypeBuilder, instance_type, offering, pool, requirement, reserved, resources,
};
use proptest::prelude::*;
use proptest::{collection, option, sample};

use super::{BETA_ZONE, CSI, RACKS, RARE, ZONES, named};

/// A key, an operator, values.
pub(super) type Expression = (&'static str, Operator, Vec<&'static str>);

/// Some values of a key, with any operator that suits it.
pub(super) fn expression() -> impl Strategy<Value = Expression> {
    let values = |all: &'static [&'static str]| sample::subsequence(all, 1..=all.len());
    let textual = sample::select(&[In, In, In, NotIn, Exists, DoesNotExist][..]);
    let keyed = prop_oneof![
        5 => values(&ZONES).prop_map(|values| ("zone", values)),
        1 => values(&ZONES).prop_map(|values| (BETA_ZONE, values)),
        2 => values(&RACKS).prop_map(|values| ("rack", values)),
        1 => values(&["amd64", "arm64"]).prop_map(|values| ("arch", values)),
        1 => values(&["spot", "on-demand", "reserved"]).prop_map(|values| ("capacity-type", values)),
        1 => values(&["type-0", "type-1", "type-2", "nowhere"]).prop_map(|values| ("type", values)),
        1 => values(&["pool-0", "pool-1"]).prop_map(|values| ("nodepool", values)),
        1 => values(&["node-0", "node-1", "twin"]).prop_map(|values| ("hostname", values)),
    ];
    let textual = (keyed, textual).prop_map(|((key, values), operator)| {
        let has_values = matches!(operator, In | NotIn);
        (key, operator, if has_values { values } else { Vec::new() })
    });
    let bound = (sample::select(&[Gt, Lt, Gte, Lte][..]), sample::select(&["1", "2", "9"][..]))
        .prop_map(|(operator, bound)| ("integer", operator, vec![bound]));
    prop_oneof![9 => textual, 1 => bound]
}

pub(super) fn any_pool() -> impl Strategy<Value = PoolBuilder> {
    let parts = (
        option::weighted(RARE, 1..3_i32),
        collection::vec(expression(), 0..2),
        option::weighted(RARE, sample::select(&LABELS[..])),
        option::weighted(RARE, sample::select(&TAINTS[..])),
        option::weighted(RARE, sample::select(&["0", "4", "20"][..])),
        option::weighted(0.1, sample::select(&["0", "1", "2"][..])),
        option::weighted(RARE, (sample::select(&["type", "zone"][..]), 1..4_u32)),
        option::weighted(0.1, Just(60_i64)),
        option::weighted(RARE, collection::vec(any_type(), 0..3)),
    );
    parts.prop_map(|(weight, requirements, label, taint, cpu, nodes, min_values, wait, types)| {
        let mut built = pool("");
        if let Some(weight) = weight {
            built = built.weight(weight);
        }
        for (key, operator, values) in &requirements {
            // The name of a pool is its own, and not for its template to say.
            if *key != "nodepool" {
                built = built.require(key, *operator, values);
            }
        }
        if let Some((key, value)) = label {
            built = built.label(key, value);
        }
        // Its own list, with types of the same names as those of other pools.
        if let Some(types) = types {
            built = built.types(named(types, "type", TypeBuilder::named));
        }
        if let Some(taint) = taint {
            built = built.taint(taint);
        }
        if let Some(cpu) = cpu {
            built = built.limit("cpu", cpu);
        }
        if let Some(nodes) = nodes {
            built = built.limit("nodes", nodes);
        }
        if let Some((key, count)) = min_values {
            built = built.require_min(key, Exists, &[], count);
        }
        match wait {
            Some(seconds) => built.consolidate_after(seconds),
            None => built,
        }
    })
}

const LABELS: [(&str, &str); 5] =
    [("rack", RACKS[0]), ("rack", RACKS[1]), ("rack", RACKS[2]), ("zone", "a"), (BETA_ZONE, "b")];

pub(super) const TAINTS: [&str; 3] =
    ["team=x:NoSchedule", "team=y:NoExecute", "mild=z:PreferNoSchedule"];

pub(super) fn any_type() -> impl Strategy<Value = TypeBuilder> {
    let sold = (
        sample::select(&ZONES[..]),
        sample::select(&["spot", "on-demand"][..]),
        1..5_u8,
        prop::bool::weighted(0.9),
        option::weighted(RARE, sample::select(&OVERRIDES[..])),
        option::weighted(0.1, sample::select(&["0", "500m", "9"][..])),
        option::weighted(0.05, sample::select(&[In, NotIn][..])),
    );
    let kept = (sample::select(&ZONES[..]), sample::select(&["r-1", "r-2"][..]), 0..3_u32);
    let parts = (
        sample::select(&["1", "2", "4", "8"][..]),
        sample::select(&["2Gi", "4Gi", "16Gi"][..]),
        sample::select(&["2", "5", "50"][..]),
        sample::select(&["amd64", "amd64", "arm64"][..]),
        collection::vec(sold, 1..5),
        option::weighted(RARE, kept),
        option::weighted(RARE, 0..3_u32),
        option::weighted(0.1, Just("2")),
        option::weighted(0.1, sample::select(&["512Mi", "3Gi"][..])),
    );
    parts.prop_map(|(cpu, memory, pods, arch, sold, kept, limit, devices, pages)| {
        let mut built = instance_type("").cpu(cpu).memory(memory).pods(pods).arch(arch);
        for (zone, capacity_type, price, available, capacity, overhead, host) in sold {
            let mut sold = offering(capacity_type, zone, f64::from(price) / 10.0);
            sold.requirements.extend(host.map(|how| requirement("hostname", how, &["node-0"])));
            let some = |pair: Option<(&str, &str)>| pair.map(|pair| resources(&[pair]));
            built = built.offering(Offering {
                available,
                capacity_override: some(capacity).unwrap_or_default(),
                overhead_override: some(overhead.map(|cpu| ("cpu", cpu))).unwrap_or_default(),
                ..sold
            });
        }
        if let Some((zone, id, left)) = kept {
            built = built.offering(reserved(id, zone, left));
        }
        if let Some(limit) = limit {
            built = built.volume_limit(CSI, limit);
        }
        if let Some(pages) = pages {
            built = built.resource(PAGES, pages);
        }
        match devices {
            Some(count) => built.resource("example.com/device", count),
            None => built,
        }
    })
}

pub(super) const PAGES: &str = "hugepages-2Mi";

/// What an offering may have instead of its type.
const OVERRIDES: [(&str, &str); 6] = [
    ("cpu", "1"),
    ("cpu", "6"),
    ("memory", "512Mi"),
    ("pods", "1"),
    ("example.com/device", "3"),
    (PAGES, "1Gi"),
];
