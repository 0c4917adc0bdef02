//! Many questions about one snapshot (spec 30 §14.3).
//!
//! [`Prepared`] does once what every question needs: templates, types, classes of pods, nodes with
//! their free room, groups with the counts of all bound pods. A [`Session`] answers questions one
//! after the other, each at the price of the pods that it is about; several threads have a session
//! each. An answer is that of [`solve`](super::solve) on the same request.

use std::collections::{BTreeMap, BTreeSet};

use super::Solver;
use super::world::Purpose;
use crate::catalog::Catalog;
use crate::id::{NodeId, PodId};
use crate::plan::Plan;
use crate::pod::{Owner, Pod};
use crate::scheduling::sizes::Sizes;
use crate::scheduling::{Fuel, Options, Request};
use crate::snapshot::Snapshot;

/// A snapshot that is ready for questions.
#[derive(Debug)]
pub struct Prepared<'a> {
    snapshot: &'a Snapshot,
    catalog: &'a Catalog,
    options: &'a Options,
    base: Solver<'a>,
}

/// Answers questions, one after the other. No answer depends on the questions before.
#[derive(Debug)]
pub struct Session<'p, 'a> {
    prepared: &'p Prepared<'a>,
    solver: Solver<'a>,
}

/// A question: where do these pods go?
#[derive(Clone, Copy, Debug)]
pub struct Ask<'q> {
    /// The pods to place, see [`Request::pods`].
    pub pods: &'q [PodId],
    /// Nodes that are treated as gone, see [`Request::without`].
    pub without: &'q BTreeSet<NodeId>,
    /// Slots that are added to reservations, in place of those in the options.
    pub credits: Option<&'q BTreeMap<String, u32>>,
    /// When to give up early.
    pub stop: Stop,
}

impl<'q> Ask<'q> {
    /// The plain question, which is answered to the end.
    pub fn new(pods: &'q [PodId], without: &'q BTreeSet<NodeId>) -> Self {
        Self { pods, without, credits: None, stop: Stop::default() }
    }
}

/// What makes the rest of an answer worthless to the one who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// More new NodeClaims than this.
    pub claims: Option<usize>,
    /// That a bound pod is refused. It is only noticed early where no other pod can change that.
    pub refusals: bool,
}

/// What a question led to.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The whole plan.
    Plan(Box<Plan>),
    /// The question was given up early.
    Stopped(Stopped),
}

/// Why a question was given up early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// More NodeClaims are needed than [`Stop::claims`].
    Claims,
    /// This bound pod has no place.
    Refused(PodId),
}

impl<'a> Prepared<'a> {
    /// Gets ready for questions. `options` hold for all of them.
    pub fn new(snapshot: &'a Snapshot, catalog: &'a Catalog, options: &'a Options) -> Self {
        Self::sized(snapshot, catalog, options, Sizes::default())
    }

    /// The same with lists cut elsewhere.
    pub fn sized(
        snapshot: &'a Snapshot,
        catalog: &'a Catalog,
        options: &'a Options,
        sizes: Sizes,
    ) -> Self {
        let mut base = Solver::new((snapshot, catalog), options, Purpose::Many, sizes);
        base.get_ready();
        Self { snapshot, catalog, options, base }
    }

    /// Answers a question itself, for who needs no more than one to ask.
    pub fn ask(&mut self, ask: &Ask<'_>, fuel: &mut Fuel<'_>) -> Answer {
        let Self { snapshot, catalog, options, base } = self;
        answer(base, (snapshot, catalog, options), ask, fuel)
    }

    /// Somebody to ask. Costs a copy of what questions change.
    pub fn session(&self) -> Session<'_, 'a> {
        Session { prepared: self, solver: self.base.clone() }
    }
}

impl Session<'_, '_> {
    /// Where do these pods go without these nodes? The answer of [`solve`](super::solve), except
    /// that fuel may be asked more or less often.
    pub fn solve(
        &mut self,
        pods: &[PodId],
        without: &BTreeSet<NodeId>,
        fuel: &mut Fuel<'_>,
    ) -> Plan {
        match self.ask(&Ask::new(pods, without), fuel) {
            Answer::Plan(plan) => *plan,
            Answer::Stopped(_) => Plan::default(),
        }
    }

    /// Answers a question.
    pub fn ask(&mut self, ask: &Ask<'_>, fuel: &mut Fuel<'_>) -> Answer {
        let Prepared { snapshot, catalog, options, .. } = *self.prepared;
        answer(&mut self.solver, (snapshot, catalog, options), ask, fuel)
    }
}

/// Has one of many questions answered.
fn answer<'a>(
    solver: &mut Solver<'a>,
    (snapshot, catalog, options): (&'a Snapshot, &'a Catalog, &'a Options),
    ask: &Ask<'_>,
    fuel: &mut Fuel<'_>,
) -> Answer {
    if needs_devices(snapshot, options, ask.pods) {
        let sizes = solver.sizes;
        return answer_anew((snapshot, catalog, options), ask, sizes, fuel);
    }
    let credits = ask.credits.unwrap_or(&options.reservation_credits);
    solver.ask(ask.pods, ask.without, credits);
    let answer = match solver.run(fuel, &ask.stop) {
        Some(stopped) => Answer::Stopped(stopped),
        None => Answer::Plan(Box::new(solver.finish(fuel))),
    };
    solver.roll_back();
    answer
}

/// Who has which device depends on all pods and nodes of the question, so nothing is prepared for
/// pods that need some.
fn needs_devices(snapshot: &Snapshot, options: &Options, pods: &[PodId]) -> bool {
    let pods = pods.iter().filter_map(|pod| snapshot.pods.get(pod.index()));
    !options.ignore_dynamic_resources && pods.into_iter().any(|pod| pod.spec.asks_dynamic_resources)
}

fn answer_anew(
    (snapshot, catalog, options): (&Snapshot, &Catalog, &Options),
    ask: &Ask<'_>,
    sizes: Sizes,
    fuel: &mut Fuel<'_>,
) -> Answer {
    let mut options = Options::clone(options);
    if let Some(credits) = ask.credits {
        options.reservation_credits.clone_from(credits);
    }
    let Ask { pods, without, .. } = *ask;
    let request = Request { snapshot, catalog, pods, without, options: &options };
    Answer::Plan(Box::new(super::solve_sized(&request, fuel, sizes)))
}

impl Solver<'_> {
    /// Makes what questions will need: classes of pods that are likely to be asked for, and their
    /// first shapes. The rest is made when it is asked for.
    fn get_ready(&mut self) {
        let world = self.world.clone();
        for (id, _) in world.askable().filter(|(_, pod)| is_likely(pod)) {
            let class = self.class(id) as usize;
            let chain = self.classes[class].chain;
            if self.chains.all[chain].shapes.is_empty() {
                let (chains, mut making) = self.making();
                chains.shape(chain, 0, &mut making);
            }
        }
    }
}

/// Whether a pod may be asked for some day.
fn is_likely(pod: &Pod) -> bool {
    let is_movable = !matches!(pod.owner, Owner::DaemonSet | Owner::Node);
    is_movable && !pod.is_terminal() && !pod.spec.asks_dynamic_resources
}
