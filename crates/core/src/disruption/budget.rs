//! Disruption budgets of a NodePool (spec 10 §13, spec 30 §4, spec 45 §9.2).
//!
//! [`allowance`] is the decision. It fails closed: one budget that cannot be understood, whatever
//! reason it is for, allows nothing for any reason.

use std::error::Error;
use std::fmt;

use jiff::Timestamp;
use karpenter_grammar::{DurationError, IntError, parse_duration, parse_int};

use super::Reason;
use super::cron::{CronError, Schedule};

#[cfg(test)]
mod tests;

/// What no budget limits: the number that users see in the metric.
pub const NO_LIMIT: u32 = i32::MAX.unsigned_abs();

/// One budget as it is written.
/// Its texts are parsed when it is evaluated, so that an invalid budget fails the decision and not
/// the ingest of the NodePool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// `nodes`: a number or a percentage.
    pub nodes: String,
    /// `schedule`: a cron text. Present exactly when `duration` is.
    pub schedule: Option<String>,
    /// `duration`: how long the budget is active from each firing on.
    pub duration: Option<String>,
    /// `reasons`: absent means every reason, an empty list means none at all.
    pub reasons: Option<Vec<Reason>>,
}

impl Budget {
    /// Whether the budget limits disruption for that reason.
    pub fn covers(&self, reason: Reason) -> bool {
        self.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason))
    }

    /// Whether `now` is within `duration` of a firing. A window ends just before its duration is
    /// over, and a schedule that never fires is always active, as upstream has it.
    pub fn is_active(&self, now: Timestamp) -> Result<bool, BudgetError> {
        if self.schedule.is_none() && self.duration.is_none() {
            return Ok(true);
        }
        let schedule = Schedule::parse(self.schedule.as_deref().unwrap_or_default())
            .map_err(BudgetError::Schedule)?;
        let duration = parse_duration(self.duration.as_deref().unwrap_or("0"))
            .map_err(BudgetError::Duration)?;
        let window_start = now.checked_sub(duration).unwrap_or(Timestamp::MIN);
        Ok(schedule.next_after(window_start).is_none_or(|firing| firing <= now))
    }

    /// How many nodes of `node_count` may be disrupted at a time.
    pub fn allowed(&self, node_count: u32, now: Timestamp) -> Result<u32, BudgetError> {
        if !self.is_active(now)? {
            return Ok(NO_LIMIT);
        }
        // Below zero is never admitted; it can only mean that nothing is allowed.
        let allowed = match NodeLimit::parse(&self.nodes)? {
            NodeLimit::Count(count) => i128::from(count),
            // Rounded up, so that 5% of 10 nodes is one node and not a freeze.
            NodeLimit::Percent(percent) => {
                (i128::from(percent) * i128::from(node_count) + 99).div_euclid(100)
            }
        };
        let allowed = allowed.clamp(0, i128::from(NO_LIMIT));
        Ok(u32::try_from(allowed).unwrap_or(NO_LIMIT))
    }
}

/// As a NodePool has it, in one line.
impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nodes: {}", self.nodes)?;
        if let Some(schedule) = &self.schedule {
            write!(f, ", schedule: {schedule:?}")?;
        }
        if let Some(duration) = &self.duration {
            write!(f, ", duration: {duration}")?;
        }
        if let Some(reasons) = &self.reasons {
            let names: Vec<_> = reasons.iter().map(|reason| reason.name()).collect();
            write!(f, ", reasons: [{}]", names.join(", "))?;
        }
        Ok(())
    }
}

enum NodeLimit {
    Count(i64),
    Percent(i64),
}

impl NodeLimit {
    fn parse(text: &str) -> Result<Self, BudgetError> {
        if let Ok(count) = parse_int(text) {
            return Ok(Self::Count(count));
        }
        let Some(percent) = text.strip_suffix('%') else {
            return Err(BudgetError::NotAPercentage(text.to_owned()));
        };
        match parse_int(percent) {
            // The schema admits none of these.
            Ok(percent) if percent > 100 => Err(BudgetError::AboveHundredPercent(text.to_owned())),
            Ok(percent) => Ok(Self::Percent(percent)),
            Err(error) => Err(BudgetError::BadPercentage { nodes: text.to_owned(), error }),
        }
    }
}

/// Why a budget cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetError {
    /// The schedule is no cron text.
    Schedule(CronError),
    /// The duration is none, or is too long for one.
    Duration(DurationError),
    /// `nodes` is neither a number nor a percentage.
    NotAPercentage(String),
    /// `nodes` ends in `%` without a number before it.
    BadPercentage {
        /// `nodes` as it is written.
        nodes: String,
        /// The parse error of the number.
        error: IntError,
    },
    /// `nodes` is more than 100 %.
    AboveHundredPercent(String),
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schedule(error) => write!(f, "invariant violated, invalid cron, {error}"),
            Self::Duration(error) => write!(f, "{error}"),
            Self::NotAPercentage(_) => f.write_str(
                "invalid value for IntOrString: invalid type: string is not a percentage",
            ),
            Self::BadPercentage { nodes, error } => {
                write!(f, "invalid value for IntOrString: invalid value {nodes:?}: {error}")
            }
            Self::AboveHundredPercent(nodes) => {
                write!(f, "invalid value for IntOrString: invalid value {nodes:?}: is above 100%")
            }
        }
    }
}

impl Error for BudgetError {}

/// The facts of a node that budgets count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state machine")]
pub struct BudgetNode {
    /// The NodeClaim is ours, and so is the Node.
    pub managed: bool,
    /// The node is initialized.
    pub initialized: bool,
    /// A reboot by node repair is under way.
    pub rebooting: bool,
    /// The NodeClaim's condition InstanceTerminating is True.
    pub instance_terminating: bool,
    /// The Node's Ready condition is True. A missing Node is not ready (spec 45 §17).
    pub ready: bool,
    /// Marked for deletion, or deleting already.
    pub marked_for_deletion: bool,
}

/// How many nodes of a pool there are, and how many of them are being disrupted already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// The nodes that percentages are taken of.
    pub total: u32,
    /// The nodes that have spent their share of the budget.
    pub disrupting: u32,
}

impl NodeCounts {
    /// Counts the nodes of a pool for one reason (spec 45 §9.2).
    ///
    /// A node that is not ready has spent its share, except for repair, which is there for exactly
    /// these.
    pub fn of(nodes: impl IntoIterator<Item = BudgetNode>, reason: Reason) -> Self {
        let mut counts = Self::default();
        for node in nodes {
            let counted =
                node.managed && (node.initialized || node.rebooting) && !node.instance_terminating;
            let disrupting = node.marked_for_deletion
                || node.rebooting
                || (!node.ready && reason != Reason::Unhealthy);
            counts.total += u32::from(counted);
            counts.disrupting += u32::from(counted && disrupting);
        }
        counts
    }
}

/// What the budgets of a pool allow for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// What goes into the metric: the tightest budget, [`NO_LIMIT`] without one.
    pub allowed: u32,
    /// How many more nodes may be disrupted.
    pub remaining: u32,
    /// The position of the tightest budget, if one limits; the first of equal ones.
    pub tightest: Option<usize>,
    /// The budgets that could not be evaluated. With any of these nothing is allowed.
    pub problems: Vec<BudgetError>,
}

/// What the budgets of a pool allow for `reason` at `now`.
///
/// The tightest active budget that covers the reason wins; without one there is no limit. Every
/// budget is evaluated, also those for other reasons, so that a broken one is noticed.
pub fn allowance(
    budgets: &[Budget],
    reason: Reason,
    now: Timestamp,
    nodes: NodeCounts,
) -> Allowance {
    let (mut allowed, mut tightest) = (NO_LIMIT, None);
    let mut problems = Vec::new();
    for (at, budget) in budgets.iter().enumerate() {
        match budget.allowed(nodes.total, now) {
            Ok(limit) if limit < allowed && budget.covers(reason) => {
                (allowed, tightest) = (limit, Some(at));
            }
            Ok(_) => {}
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        (allowed, tightest) = (0, None);
    }
    Allowance { allowed, remaining: allowed.saturating_sub(nodes.disrupting), tightest, problems }
}
