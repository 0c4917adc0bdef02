//! Nodes that move into reservations (spec 30 §6).

use super::*;

#[test]
fn nodes_move_into_reservations() {
    let types = || {
        [
            sized(4).also_sold(karpenter_core::catalog::Offering {
                price: 0.5,
                ..reserved("r-4", ZONE, 1)
            }),
            sized(2).also_sold(reserved("r-2", ZONE, 1)),
        ]
    };
    #[rustfmt::skip]
    let cases = [
        ("30/RSV-1", "reserved", 4, "1"),
        ("30/RSV-2 on demand", "on-demand", 4, "3"),
        ("30/RSV-2 spot", "spot", 4, "3"),
    ];
    for (case, capacity_type, cpu, asked) in cases {
        let own = of("n", cpu).label("capacity-type", capacity_type);
        let world = World::of(types())
            .node(own.label("karpenter.test.sh/reservation-id", "r-4"))
            .pod(pod("p").cpu(asked).on("n"));
        let pass = run(&world, &upstream());
        let expected = [(Method::SingleNode, Decision::Replace, vec!["n"])];
        assert_eq!(said(&pass), expected, "{case}: {:?}", pass.kept);
        let claim = pass.commands[0].replacements[0].planned().unwrap();
        let types = claim.requirements.get("karpenter.sh/capacity-type").unwrap();
        assert!(types.has("reserved") && !types.has("spot"), "{case}");
        assert!(!claim.reservations.is_empty(), "{case}");
    }
}
