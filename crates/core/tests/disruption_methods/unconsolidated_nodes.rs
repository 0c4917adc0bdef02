//! Tests of the reasons that a pass reports for nodes that it retains.

use karpenter_core::disruption::{DriftStatus, RetainedNode};
use karpenter_core::static_capacity::ClaimCounts;

use super::*;

fn drifted(name: &str) -> NodeBuilder {
    node_of_size(name, 4).disruption_state(|s| {
        s.drifted_at = Some(now());
        s.is_consolidatable = false;
    })
}

/// Returns how a pass with consolidation methods alone retains a node.
fn kept_node(world: &World, settings: &Settings, name: &str) -> RetainedNode {
    let pass = run_with(world, settings, |context| {
        context.settled.extend([Method::StaticDrift, Method::Drift]);
    });
    pass.retained_nodes.into_iter().find(|kept| kept.node == name).expect("it stays")
}

#[test]
fn consolidation_leaves_a_drifted_node_to_drift() {
    let due = |text: &str| Some(DriftStatus::Due { text: text.to_owned() });
    let due_text = "Node has drifted: drift replaces it, not consolidation";
    let with = |pool: PoolBuilder, node: NodeBuilder| {
        let busy = pod("p").cpu("3").on_node("n").do_not_disrupt();
        let world = World::empty().types(sizes()).pool(pool).node(node);
        (
            kept_node(&world, &upstream(), "n").drift,
            kept_node(&world.pod(busy), &upstream(), "n").drift,
        )
    };
    let free = || on_demand("default").budget("100%", &[]);
    let held = Some(DriftStatus::Blocked);
    assert_eq!(
        with(free(), node_of_size("n", 4).disruption_state(|s| s.is_consolidatable = false)),
        (None, None)
    );
    assert_eq!(with(free(), drifted("n")), (due(due_text), held.clone()));
    let bounded = drifted("n").disruption_state(|s| {
        s.termination_grace_period = Some(SignedDuration::from_mins(1));
    });
    assert_eq!(
        with(free(), bounded),
        (due(due_text), due(due_text)),
        "drift need not mind the pod"
    );
    let later = "Node has drifted: drift replaces it, not consolidation, when its budgets allow \
                 it: {nodes: 0, reasons: [Drifted]} allows 0 of 1 nodes at a time, 0 are disrupted \
                 or not ready already";
    let frozen = free().budget("0", &[Reason::Drifted]);
    assert_eq!(with(frozen, drifted("n")), (due(later), held.clone()));
    let fixed = on_demand("default").replicas(1);
    assert_eq!(with(fixed, drifted("n")), (held.clone(), held), "StaticCapacity is off");
}

#[test]
fn a_drifted_node_without_a_possible_replacement_is_kept() {
    let explain = Settings { explain_drift: true, ..Settings::default() };
    let alone = || World::empty().types(sizes()).node(drifted("n"));
    let held = || pod("p").cpu("1").select("custom", "here").on_node("n");
    let world = || alone().pool(on_demand("default").budget("100%", &[])).pod(held());
    let drift = |world: &World, settings: &Settings| kept_node(world, settings, "n").drift;
    let Some(DriftStatus::CannotReplace { text, blocked_by }) = drift(&world(), &explain) else {
        panic!("{:?}", drift(&world(), &explain));
    };
    // The very words of drift.
    let drift_pass = run(&world(), &upstream());
    assert_eq!(notice_texts(&drift_pass, NodeEventKind::Blocked), [text.as_str()]);
    assert!(text.starts_with("Not all pods would schedule, default/p => "), "{text}");
    assert_eq!(blocked_by, ["Pod default/p"]);
    let is_due = |drift| matches!(drift, Some(DriftStatus::Due { .. }));
    assert!(is_due(drift(&world(), &Settings::default())), "nobody asks");
    let open = world().node(node_of_size("m", 4).label("custom", "here"));
    assert!(is_due(drift(&open, &explain)), "there is room");
    let free = alone().pool(on_demand("default")).pod(pod("p").cpu("1").on_node("n"));
    assert!(is_due(drift(&free, &explain)), "a node can come");
}

#[test]
fn the_reason_of_a_drifted_node_names_the_limiting_budget() {
    let explain = Settings { explain_drift: true, ..Settings::default() };
    let with = |pool: PoolBuilder| {
        let world = World::empty().types(sizes()).pool(pool.budget("100%", &[]));
        let world = ["a", "b"].iter().fold(world, |world, name| {
            world.node(drifted(name)).pod(pod(&format!("on-{name}")).cpu("3").on_node(name))
        });
        // It is empty, and goes before drift.
        kept_node(&world.node(node_of_size("c", 4)), &explain, "b").drift
    };
    let due = "Node has drifted: drift replaces it, not consolidation";
    let text = |text: &str| Some(DriftStatus::Due { text: text.to_owned() });
    assert_eq!(with(on_demand("default")), text(due));
    let one = "{nodes: 1, reasons: [Drifted]} allows 1 of 3 nodes at a time, 0 are disrupted or not \
               ready already, 1 goes first";
    let later = format!("{due}, when its budgets allow it: {one}");
    assert_eq!(with(on_demand("default").budget("1", &[Reason::Drifted])), text(&later));
    let none = "{nodes: 0, reasons: [Drifted]} allows 0 of 3 nodes at a time, 0 are disrupted or not \
                ready already, 1 goes first";
    let stuck = format!("Node has drifted, and its budgets keep drift from it: {none}");
    assert_eq!(
        with(on_demand("default").budget("0", &[Reason::Drifted])),
        Some(DriftStatus::CannotReplace { text: stuck, blocked_by: Vec::new() })
    );
}

#[test]
fn a_drifted_node_of_a_static_node_pool_at_its_limit_is_kept() {
    let with = |limit: &str, terminate_first_drift: bool| {
        let pool = on_demand("default").replicas(1).limit("nodes", limit);
        let world = World::empty().types(sizes()).pool(pool).node(drifted("n"));
        let settings = Settings {
            static_capacity: true,
            explain_drift: true,
            terminate_first_drift,
            ..Settings::default()
        };
        let pass = run_with(&world, &settings, |context| {
            context.settled.extend([Method::StaticDrift, Method::Drift]);
            let counts = ClaimCounts { active: 1, ..ClaimCounts::default() };
            context.static_claims = [("default".to_owned(), counts)].into();
        });
        pass.retained_nodes.into_iter().find_map(|kept| kept.drift).expect("it has drifted")
    };
    let text = "static NodePool is at its node limit and cannot stage a replacement".to_owned();
    assert_eq!(with("1", false), DriftStatus::CannotReplace { text, blocked_by: Vec::new() });
    assert!(matches!(with("2", false), DriftStatus::Due { .. }), "there is room for one more");
    assert!(matches!(with("1", true), DriftStatus::Due { .. }), "it goes first");
}

#[test]
fn the_reason_gives_the_allowance_and_usage_of_a_budget() {
    let two = |pool: PoolBuilder| {
        let world = World::empty().types(sizes()).pool(pool);
        world.node(node_of_size("a", 4)).node(node_of_size("b", 4))
    };
    let kept_text = |pool: PoolBuilder| kept_node(&two(pool), &Settings::default(), "b").text;
    let all = "Disruption budgets of NodePool \"default\" allow no more disruptions: ";
    let one = on_demand("default").budget("100%", &[]).budget("10%", &[Reason::Empty]);
    assert_eq!(
        kept_text(one),
        format!(
            "{all}{{nodes: 10%, reasons: [Empty]}} allows 1 of 2 nodes at a time, 0 are disrupted \
             or not ready already, 1 goes first"
        )
    );
    let unready = two(on_demand("default").budget("1", &[]));
    let unready = unready.node(node_of_size("c", 4).disruption_state(|s| s.is_ready = false));
    assert_eq!(
        kept_node(&unready, &Settings::default(), "b").text,
        format!(
            "{all}{{nodes: 1}} allows 1 of 3 nodes at a time, 1 is disrupted or not ready already"
        )
    );
    assert_eq!(
        kept_text(on_demand("default").budget("many", &[])),
        format!(
            "{all}one of them cannot be read (invalid value for IntOrString: invalid type: string \
             is not a percentage), which allows nothing"
        )
    );
}

#[test]
fn the_reason_distinguishes_moving_pods_from_pending_pods() {
    let fenced = |name: &str| pod(name).tolerate("only=c:NoSchedule").select("custom", "here");
    let world = world()
        .node(node_of_size("a", 4))
        .node(node_of_size("b", 8))
        .node(node_of_size("c", 8).label("custom", "here").taint("only=c:NoSchedule"))
        .pod(pod("small").cpu("1").on_node("a"))
        .pod(pod("large").cpu("5").on_node("b"))
        .pod(fenced("own").cpu("4").on_node("c"))
        .pod(fenced("pending").cpu("2"));
    let settings = Settings::default();
    let pass = run(&world, &settings);
    assert_eq!(command_summaries(&pass), [(Method::SingleNode, Decision::Delete, vec!["a"])]);
    let text = |name: &str| kept_node(&world, &settings, name).text;
    assert_eq!(text("b"), "Pods of other nodes are about to be moved here");
    assert_eq!(text("c"), "Pending pods are about to be scheduled here");
}

#[test]
fn a_candidate_of_an_unknown_type_is_not_priced() {
    let unknown = node_of_size("n", 4).label("type", "gone");
    let pass = run(&world().node(unknown).node(node_of_size("m", 4)), &Settings::default());
    let candidates = pass.commands.iter().flat_map(|command| &command.candidates);
    let mut known: Vec<_> = candidates.map(|one| (one.name.as_str(), one.is_priced())).collect();
    known.sort_unstable();
    assert_eq!(known, [("m", true), ("n", false)]);
}
