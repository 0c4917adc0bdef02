//! The range of decisions that several runs of upstream span.

use std::collections::BTreeSet;
use std::fmt;

use crate::decision::Decision;

/// The unplaced pods, prices and node counts of several upstream runs.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamRange {
    /// The different sets of pods that stayed without a node.
    pub unplaced: BTreeSet<BTreeSet<String>>,
    /// The lowest and the highest total price per hour.
    pub price: (f64, f64),
    /// The lowest and the highest number of new nodes.
    pub nodes: (usize, usize),
}

/// How a decision leaves what upstream does.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// Other pods stay without a place. Compared with upstream's nearest run.
    Unplaced {
        only_ours: Vec<String>,
        only_upstream: Vec<String>,
    },
    HigherPrice {
        ours: f64,
        highest: f64,
    },
    MoreNodes {
        ours: usize,
        most: usize,
    },
}

/// Sums of the same prices in another order differ in the last digits.
const ROUNDING: f64 = 1e-9;

impl UpstreamRange {
    /// Returns the range of these runs.
    pub fn from_runs(runs: &[Decision], waiting: &BTreeSet<String>) -> Self {
        let prices = || runs.iter().map(|run| run.total_price);
        let nodes = || runs.iter().map(|run| run.node_claims.len());
        Self {
            unplaced: runs.iter().map(|run| run.unplaced_pods(waiting)).collect(),
            price: (prices().fold(f64::INFINITY, f64::min), prices().fold(0.0, f64::max)),
            nodes: (nodes().min().unwrap_or(0), nodes().max().unwrap_or(0)),
        }
    }

    /// Returns where our decision leaves the range of upstream's runs.
    pub fn differences(&self, ours: &Decision, waiting: &BTreeSet<String>) -> Vec<Difference> {
        let mut differences = Vec::new();
        let unplaced = ours.unplaced_pods(waiting);
        if !self.unplaced.contains(&unplaced) {
            let distance = |set: &&BTreeSet<String>| set.symmetric_difference(&unplaced).count();
            let nearest = self.unplaced.iter().min_by_key(distance).cloned().unwrap_or_default();
            differences.push(Difference::Unplaced {
                only_ours: unplaced.difference(&nearest).cloned().collect(),
                only_upstream: nearest.difference(&unplaced).cloned().collect(),
            });
        }
        let highest = self.price.1;
        if ours.total_price > highest * (1.0 + ROUNDING) + ROUNDING {
            differences.push(Difference::HigherPrice { ours: ours.total_price, highest });
        }
        let most = self.nodes.1;
        if ours.node_claims.len() > most {
            differences.push(Difference::MoreNodes { ours: ours.node_claims.len(), most });
        }
        differences
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unplaced { only_ours, only_upstream } => write!(
                f,
                "without a place only with us: [{}], only with upstream: [{}]",
                only_ours.join(" "),
                only_upstream.join(" ")
            ),
            Self::HigherPrice { ours, highest } => {
                write!(f, "price {ours:.6}, upstream at most {highest:.6}")
            }
            Self::MoreNodes { ours, most } => write!(f, "{ours} nodes, upstream at most {most}"),
        }
    }
}
