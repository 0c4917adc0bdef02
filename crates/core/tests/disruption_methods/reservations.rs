//! Nodes that move into reservations (spec 30 §6).

use super::*;

#[test]
fn consolidation_replaces_nodes_with_reserved_ones() {
    let types = || {
        [
            sized(4).additional_offering(karpenter_core::catalog::Offering {
                price: 0.5,
                ..reserved("r-4", ZONE, 1)
            }),
            sized(2).additional_offering(reserved("r-2", ZONE, 1)),
        ]
    };
    #[rustfmt::skip]
    let cases = [
        ("30/RSV-1", "reserved", 4, "1"),
        ("30/RSV-2 on demand", "on-demand", 4, "3"),
        ("30/RSV-2 spot", "spot", 4, "3"),
    ];
    for (case, capacity_type, cpu, cpu_request) in cases {
        let own = node_of_size("n", cpu).label("capacity-type", capacity_type);
        let world = World::with_types(types())
            .node(own.label("karpenter.test.sh/reservation-id", "r-4"))
            .pod(pod("p").cpu(cpu_request).on_node("n"));
        let pass = run(&world, &upstream());
        let expected = [(Method::SingleNode, Decision::Replace, vec!["n"])];
        assert_eq!(command_summaries(&pass), expected, "{case}: {:?}", pass.retained_nodes);
        let claim = pass.commands[0].replacements[0].planned().unwrap();
        let types = claim.requirements.get("karpenter.sh/capacity-type").unwrap();
        assert!(types.has("reserved") && !types.has("spot"), "{case}");
        assert!(!claim.reservations.is_empty(), "{case}");
    }
}
