//! A prepared solver answers as [`solve`] does, whatever it was asked before (spec 30 §14.3).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_core::id::{NodeId, PodId};
use karpenter_core::scheduling::{
    Answer, Ask, Fuel, Prepared, Request, Session, Sizes, Stop, Stopped, solve,
};
use karpenter_core::testing::{World, claim, node, pod, volume};
use proptest::prelude::*;

use super::worlds::{Scene, wild_scene};

/// A question as random bits: which nodes go, which pods move.
#[derive(Clone, Debug)]
struct Question {
    without: u32,
    /// Whether the pods of nodes that go are asked for.
    moves: bool,
    /// Whether pods that wait are asked for.
    pending: bool,
    /// Some more pods, wherever they are.
    others: u64,
    credits: Option<u32>,
}

fn question() -> impl Strategy<Value = Question> {
    let few = prop_oneof![Just(0_u32), (0..5_u32).prop_map(|node| 1 << node), any::<u32>()];
    let others = prop_oneof![3 => Just(0_u64), 1 => any::<u64>()];
    let credits = prop::option::weighted(0.2, 0..2_u32);
    (few, prop::bool::weighted(0.8), any::<bool>(), others, credits).prop_map(
        |(without, moves, pending, others, credits)| Question {
            without,
            moves,
            pending,
            others,
            credits,
        },
    )
}

impl Question {
    fn nodes(&self, world: &World) -> BTreeSet<NodeId> {
        let is_gone = |node: &usize| self.without >> (node % 32) & 1 == 1;
        (0..world.snapshot.nodes.len()).filter(is_gone).map(NodeId::new).collect()
    }

    fn pods(&self, world: &World) -> Vec<PodId> {
        let without = self.nodes(world);
        let pods = world.snapshot.pods.iter().enumerate().filter(|(index, pod)| {
            let is_there = pod.node.is_some_and(|node| without.contains(&node));
            (self.moves && is_there)
                || (self.pending && pod.node.is_none())
                || self.others >> (index % 64) & 1 == 1
        });
        pods.map(|(index, _)| PodId::new(index)).collect()
    }

    fn credits(&self) -> Option<BTreeMap<String, u32>> {
        self.credits.map(|slots| [("res-0".to_owned(), slots), ("res-1".to_owned(), 1)].into())
    }
}

/// What one who starts from nothing answers.
fn alone(world: &World, question: &Question) -> karpenter_core::plan::Plan {
    let (pods, without) = (question.pods(world), question.nodes(world));
    let mut options = world.options.clone();
    if let Some(credits) = question.credits() {
        options.reservation_credits = credits;
    }
    let World { snapshot, catalog, .. } = world;
    let request = Request { snapshot, catalog, pods: &pods, without: &without, options: &options };
    solve(&request, &mut Fuel::unlimited())
}

fn ask(session: &mut Session<'_, '_>, world: &World, question: &Question, stop: Stop) -> Answer {
    let (pods, without) = (question.pods(world), question.nodes(world));
    let credits = question.credits();
    let ask = Ask { credits: credits.as_ref(), stop, ..Ask::new(&pods, &without) };
    session.ask(&ask, &mut Fuel::unlimited())
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn answers_are_those_of_a_solve_whatever_was_asked_before(
        Scene(world) in wild_scene(),
        questions in prop::collection::vec(question(), 1..6),
        nodes_per_block in 1..4_usize,
    ) {
        let World { snapshot, catalog, options, .. } = &world;
        let sizes = Sizes { nodes_per_block, claims_per_run: 2, ..Sizes::default() };
        let prepared = Prepared::sized(snapshot, catalog, options, sizes);
        let mut session = prepared.session();
        for (number, question) in questions.iter().enumerate() {
            let expected = Answer::Plan(Box::new(alone(&world, question)));
            let answer = ask(&mut session, &world, question, Stop::default());
            prop_assert_eq!(&answer, &expected, "question {}", number);
        }
    }

    /// A question that is given up early would have ended like that, and leaves nothing behind.
    #[test]
    fn a_question_is_given_up_only_for_what_its_whole_answer_has_too(
        Scene(world) in wild_scene(),
        questions in prop::collection::vec(question(), 1..4),
        most in 0..3_usize,
    ) {
        let World { snapshot, catalog, options, .. } = &world;
        let prepared = Prepared::new(snapshot, catalog, options);
        let mut session = prepared.session();
        let stop = Stop { claims: Some(most), refusals: true };
        for question in &questions {
            let whole = alone(&world, question);
            match ask(&mut session, &world, question, stop) {
                Answer::Plan(plan) => prop_assert_eq!(*plan, whole),
                // NodeClaims whose minValues are lost in the end are in no plan.
                Answer::Stopped(Stopped::Claims) => {
                    let refused = !whole.refused.is_empty();
                    prop_assert!(whole.claims.len() > most || refused);
                }
                Answer::Stopped(Stopped::Refused(pod)) => {
                    prop_assert!(whole.refused.contains_key(&pod));
                }
            }
        }
    }
}

#[test]
fn a_prepared_solver_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Prepared<'_>>();
    shared::<Session<'_, '_>>();
}

/// Random worlds hardly ever fill a node with volumes.
#[test]
fn volumes_of_one_question_are_detached_for_the_next() {
    let disk = || volume("csi.test", &[]);
    let world = World::new()
        .volume("disk-1", disk())
        .volume("disk-2", disk())
        .claim("one", claim("disk-1", ""))
        .claim("two", claim("disk-2", ""))
        .node(node("a").driver("csi.test", Some(1)))
        .pods([pod("first").mount("one"), pod("second").mount("two")]);
    let World { snapshot, catalog, options, .. } = &world;
    let prepared = Prepared::new(snapshot, catalog, options);
    let mut session = prepared.session();
    for name in ["first", "second", "first"] {
        let pods = [world.pod_id(name)];
        let plan = session.solve(&pods, &BTreeSet::new(), &mut Fuel::unlimited());
        assert_eq!(plan.existing, [(world.node_id("a"), pods.to_vec())], "{name}");
    }
}

/// Whoever needs devices is answered by a solve from nothing.
#[test]
fn pods_that_need_devices_are_answered_too() {
    let world = World::new()
        .node(node("a"))
        .pods([pod("plain"), pod("picky").resource_claims(&["gpu"])])
        .with(|options| options.ignore_dynamic_resources = false);
    let World { snapshot, catalog, options, .. } = &world;
    let prepared = Prepared::new(snapshot, catalog, options);
    let mut session = prepared.session();
    let (pods, without) = (world.pending(), BTreeSet::new());
    let request = Request { snapshot, catalog, pods: &pods, without: &without, options };
    let expected = solve(&request, &mut Fuel::unlimited());
    assert_eq!(expected.refused.len(), 1, "there is no such claim");
    assert_eq!(session.solve(&pods, &without, &mut Fuel::unlimited()), expected);
}
