//! `karpenter plan --consolidate`: shows which nodes consolidation would remove, their
//! replacements, and why the others stay. Decides with the controller's own code, on one snapshot
//! and without waiting: commands that the controller would validate after fifteen seconds are
//! reported as they are found.

mod excluded_pools;
mod node_costs;
mod report;
mod table;

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_core::disruption::{
    self, Method, PassContext, PassOutcome, SearchFuel, SearchMode, Settings,
};
use karpenter_core::snapshot::Snapshot;
use karpenter_core::static_capacity::ClaimCounts;
use karpenter_core::verify::{Level, Violation};
use karpenter_operator::options::ConsolidationSearch;

use super::decision::PlanInput;
use super::report::Remark;
use super::violations;
use crate::clock::Stopwatch;
use crate::options::{DecisionOptions, Gate};

pub(crate) use report::ConsolidationReport;
pub(crate) use table::render;

impl PlanInput {
    /// Decides and returns the report, without the input reader's remarks.
    /// Those remarks explain nodes that stay because no pool launches anything.
    pub(crate) fn consolidate(
        &self,
        options: &DecisionOptions,
        now: Timestamp,
        input_remarks: &[Remark],
    ) -> ConsolidationReport {
        let settings = disruption_settings(options);
        let context = self.pass_context(&settings, now);
        let stopwatch = Stopwatch::start();
        let mut pass =
            disruption::run_pass(&context, Method::Emptiness, &mut SearchFuel::unlimited());
        let seconds = stopwatch.seconds();
        let violations = drop_invalid_commands(&context, &mut pass);
        let mut report = report::build_report(&self.snapshot, &self.catalog, &pass);
        excluded_pools::explain_excluded_pools(&mut report.kept, || {
            self.excluded_pools(options, input_remarks)
        });
        let remarks = self.remarks.iter().cloned().map(|remark| self.adjust_remark(remark));
        ConsolidationReport {
            seconds,
            setup_seconds: self.setup_seconds,
            marked: remarks.chain(violations::remarks(&violations)).collect(),
            ..report
        }
    }

    /// Marks a pool that only launches nothing as not left out.
    fn adjust_remark(&self, remark: Remark) -> Remark {
        let pool = remark.object.strip_prefix("NodePool ").filter(|_| remark.left_out);
        if pool.is_none_or(|name| !self.snapshot.managed_pools.contains_key(name)) {
            return remark;
        }
        let problem =
            format!("{}; launches nothing for pods, its nodes are looked at", remark.problem);
        Remark { problem, left_out: false, ..remark }
    }

    /// Returns the number of nodes.
    pub(crate) fn node_count(&self) -> usize {
        self.snapshot.nodes.len()
    }

    fn pass_context<'a>(&'a self, settings: &'a Settings, now: Timestamp) -> PassContext<'a> {
        let mut context = PassContext::new(&self.snapshot, &self.catalog, settings, now);
        context.pool_costs = node_costs::node_costs(&self.snapshot, &self.catalog).by_pool;
        context.static_claims = static_claim_counts(&self.snapshot);
        // Drift is not evaluated; the start of the pass leaves repair out.
        context.settled.extend([Method::StaticDrift, Method::Drift]);
        context
    }
}

/// Drops the commands that break a rule, as the controller does. Returns the violations.
fn drop_invalid_commands(context: &PassContext<'_>, pass: &mut PassOutcome) -> Vec<Violation> {
    let found = disruption::check_commands(context, &pass.commands, Level::of_build());
    let mut is_valid = found.iter().map(Vec::is_empty);
    pass.commands.retain(|_| is_valid.next().unwrap_or(false));
    found.concat()
}

/// Returns the NodeClaim counts of static NodePools.
fn static_claim_counts(snapshot: &Snapshot) -> BTreeMap<String, ClaimCounts> {
    let pools = snapshot.managed_pools.iter().filter(|(_, pool)| pool.replicas.is_some());
    let mut claims: BTreeMap<String, ClaimCounts> =
        pools.map(|(name, _)| (name.clone(), ClaimCounts::default())).collect();
    for node in snapshot.nodes.iter().filter(|node| node.is_managed) {
        let Some(counts) = node.pool.as_ref().and_then(|pool| claims.get_mut(pool)) else {
            continue;
        };
        if node.is_deleting {
            counts.deleting += 1;
        } else {
            counts.active += 1;
        }
    }
    claims
}

fn disruption_settings(options: &DecisionOptions) -> Settings {
    Settings {
        scheduling: options.solve_options(std::collections::BTreeSet::new()),
        search: match options.consolidation_search {
            ConsolidationSearch::Best => SearchMode::Best,
            ConsolidationSearch::Deep => SearchMode::Deep,
            ConsolidationSearch::Upstream => SearchMode::Upstream,
        },
        // Only for the texts about drifted nodes: drift itself is not evaluated.
        static_capacity: options.gates.is_enabled(Gate::StaticCapacity),
        terminate_first_drift: options.gates.is_enabled(Gate::TerminateFirstDrift),
        explain_drift: true,
        spot_to_spot: options.gates.is_enabled(Gate::SpotToSpotConsolidation),
        ..Settings::default()
    }
}
