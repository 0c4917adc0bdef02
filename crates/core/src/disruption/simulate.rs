//! If these nodes were gone, where would everything go that needs a place? (spec 30 §5)

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::{Board, Candidate, World};
use crate::id::{NodeId, PodId};
use crate::plan::Plan;
use crate::reason::Refusal;
use crate::scheduling::demand::{demand, is_provisionable};
use crate::scheduling::{Answer, Ask, Fuel, Options, Prepared, ReservedMode, Stop, Stopped};
use crate::snapshot::Snapshot;

/// How many pods without a place are named in a text.
const NAMED: usize = 5;

/// Asks the scheduler about nodes that would be gone. The scheduler gets ready once for each kind of
/// question, when the first such is asked.
pub(super) struct Simulator<'a> {
    board: &'a Board<'a>,
    /// Pods that wait for a place, and pods of nodes that go already.
    waiting: Option<Vec<PodId>>,
    consolidating: Option<Prepared<'a>>,
    ordinary: Option<Prepared<'a>>,
    strict: Option<Prepared<'a>>,
}

/// What the scheduler is told for each kind of question.
#[derive(Debug)]
pub(super) struct QuestionOptions {
    consolidating: Options,
    ordinary: Options,
    strict: Options,
}

impl QuestionOptions {
    pub(super) fn new(world: &World<'_>) -> Self {
        let of = |reserved| Options { reserved, ..world.settings.scheduling.clone() };
        let now = Some(world.now);
        Self {
            consolidating: Options { enforce_consolidate_after: now, ..of(ReservedMode::Fallback) },
            ordinary: of(ReservedMode::Fallback),
            strict: of(ReservedMode::Strict),
        }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question<'a> {
    /// For consolidation: nodes whose consolidateAfter has not passed take no pods.
    Consolidation,
    /// For drift.
    Drift,
    /// For repair: also pods that must not be moved take part.
    Repair,
    /// With a slot of a reservation that the candidate frees, and nothing else instead of it.
    WithSlot {
        /// The reservation.
        reservation: &'a str,
        /// Whether pods that must not be moved take part.
        is_repair: bool,
    },
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Simulated {
    pub(super) plan: Plan,
    /// Pods without a place that have one now, by namespace and name.
    pub(super) misplaced: Vec<(PodId, Misplaced)>,
}

/// Why a pod has no place that counts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Misplaced {
    Refused(Arc<Refusal>),
    /// Its place is a node that may never become ready.
    Uninitialized {
        node_claim: String,
        node: String,
    },
}

impl<'a> Simulator<'a> {
    pub(super) fn new(board: &'a Board<'a>) -> Self {
        Self { board, waiting: None, consolidating: None, ordinary: None, strict: None }
    }

    /// Where everything would go without these nodes.
    pub(super) fn simulate(
        &mut self,
        candidates: &[&Candidate],
        question: Question<'_>,
        fuel: &mut Fuel<'_>,
    ) -> Simulated {
        match self.ask(candidates, question, Stop::default(), fuel) {
            Ok(simulated) => simulated,
            // Nothing was to stop it.
            Err(_) => Simulated { plan: Plan::default(), misplaced: Vec::new() },
        }
    }

    /// The same, but given up as soon as some pod has no place, or so many new nodes do not do.
    pub(super) fn simulate_within(
        &mut self,
        candidates: &[&Candidate],
        claims: usize,
        fuel: &mut Fuel<'_>,
    ) -> Result<Simulated, Stopped> {
        let stop = Stop { claims: Some(claims), refusals: true };
        self.ask(candidates, Question::Consolidation, stop, fuel)
    }

    /// The one place that asks the scheduler.
    fn ask(
        &mut self,
        candidates: &[&Candidate],
        question: Question<'_>,
        stop: Stop,
        fuel: &mut Fuel<'_>,
    ) -> Result<Simulated, Stopped> {
        let demanded = || demand(self.board.world.snapshot).place;
        let mut pods = self.waiting.get_or_insert_with(demanded).clone();
        for candidate in candidates {
            pods.extend(if question.takes_all() { &candidate.pods } else { &candidate.movable });
        }
        let without: BTreeSet<NodeId> = candidates.iter().map(|one| one.node).collect();
        let board = self.board;
        let (prepared, options, credits) = match question {
            Question::Consolidation => {
                (&mut self.consolidating, &board.options.consolidating, None)
            }
            Question::Drift | Question::Repair => {
                (&mut self.ordinary, &board.options.ordinary, None)
            }
            Question::WithSlot { reservation, .. } => {
                let credits = BTreeMap::from([(reservation.to_owned(), 1)]);
                (&mut self.strict, &board.options.strict, Some(credits))
            }
        };
        let (snapshot, catalog) = (board.world.snapshot, board.world.catalog);
        let prepared = prepared.get_or_insert_with(|| Prepared::new(snapshot, catalog, options));
        let ask = Ask { credits: credits.as_ref(), stop, ..Ask::new(&pods, &without) };
        match prepared.ask(&ask, fuel) {
            Answer::Plan(plan) => {
                let misplaced = self.misplaced(&plan);
                Ok(Simulated { plan: *plan, misplaced })
            }
            Answer::Stopped(stopped) => Err(stopped),
        }
    }

    fn misplaced(&self, plan: &Plan) -> Vec<(PodId, Misplaced)> {
        let snapshot = self.board.world.snapshot;
        let refused = plan.refused.iter().map(|(&pod, why)| (pod, Misplaced::Refused(why.clone())));
        let refused = refused.filter(|(pod, _)| !is_waiting(snapshot, *pod));
        let mut misplaced: Vec<_> = refused.collect();
        for (node, pods) in &plan.existing {
            let node = snapshot.node(*node);
            if node.is_initialized {
                continue;
            }
            // What leaves a node that goes already is taken care of already.
            let counts = |pod: &&PodId| {
                let on = snapshot.pod(**pod).node;
                !on.is_some_and(|on| snapshot.node(on).is_deleting)
            };
            let counted = pods.iter().filter(counts).filter(|pod| !is_waiting(snapshot, **pod));
            misplaced.extend(counted.map(|&pod| {
                let node_claim = node.standing.node_claim.clone();
                let name = if node.object.is_some() { node.name.clone() } else { String::new() };
                (pod, Misplaced::Uninitialized { node_claim, node: name })
            }));
        }
        let name = |pod: PodId| {
            let pod = snapshot.pod(pod);
            (&pod.namespace, &pod.name)
        };
        misplaced.sort_by(|a, b| name(a.0).cmp(&name(b.0)));
        misplaced
    }
}

impl Question<'_> {
    fn takes_all(self) -> bool {
        matches!(self, Self::Repair | Self::WithSlot { is_repair: true, .. })
    }
}

impl Simulated {
    /// Whether every pod that has a place keeps one.
    pub(super) fn places_all(&self) -> bool {
        self.misplaced.is_empty()
    }

    /// The pods that would lose their place, as events say it.
    pub(super) fn text(&self, snapshot: &Snapshot) -> String {
        let mut text = "Not all pods would schedule, ".to_owned();
        for (pod, why) in self.misplaced.iter().take(NAMED) {
            let pod = snapshot.pod(*pod).full_name();
            text.extend([&pod, " => ", &why.to_string(), " "]);
        }
        if let Some(others) = self.misplaced.len().checked_sub(NAMED) {
            text.extend([" and ", &others.to_string(), " other(s)"]);
        }
        text
    }
}

/// Whether nobody takes a place from the pod: it has none now.
pub(super) fn is_waiting(snapshot: &Snapshot, pod: PodId) -> bool {
    let pod = snapshot.pod(pod);
    is_provisionable(pod) || pod.is_virtual
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "{why}"),
            Self::Uninitialized { node_claim, node } => {
                f.write_str("would schedule against uninitialized ")?;
                let parts = [("nodeclaim", node_claim), ("node", node)];
                let parts = parts.iter().filter(|(_, name)| !name.is_empty());
                let parts: Vec<_> = parts.map(|(kind, name)| format!("{kind}/{name}")).collect();
                f.write_str(&parts.join(", "))
            }
        }
    }
}
