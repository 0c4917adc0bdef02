//! What to do about unhealthy nodes (spec 45 §4, §7).
//!
//! ```text
//! policies of the provider ──▶ matches of a node (no clock) ──▶ the repair due now
//!      [`policy`]                    [`matching`]                  [`matching::resolve`]
//! ```
//!
//! [`legacy`] is the simpler rule of `--legacy-node-repair`. Whether a repair fits the budget, and
//! what replaces the node, is not decided here.

pub mod legacy;
pub mod matching;
pub mod policy;

use jiff::Timestamp;

use crate::snapshot;

/// A condition of a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeCondition<'a> {
    /// The type.
    pub condition_type: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// Why, in one word; may be empty.
    pub reason: &'a str,
    /// Since when it has this status, if that is known.
    pub since: Option<Timestamp>,
}

impl<'a> From<&'a snapshot::NodeCondition> for NodeCondition<'a> {
    fn from(condition: &'a snapshot::NodeCondition) -> Self {
        Self {
            condition_type: &condition.condition_type,
            status: &condition.status,
            reason: &condition.reason,
            since: condition.last_transition_time,
        }
    }
}

/// Unhealthy nodes in percent above which nothing is repaired: the cause is not the nodes then.
const TOLERATED_PERCENT: usize = 20;

/// Whether so many unhealthy nodes are few enough to repair one. Parts of a node count as one.
pub fn is_tolerable(unhealthy: usize, population: usize) -> bool {
    unhealthy <= population.saturating_mul(TOLERATED_PERCENT).div_ceil(100)
}

/// A condition type as metrics name it: `KernelReady` is `kernel_ready`.
pub fn snake_case(condition_type: &str) -> String {
    let letters: Vec<char> = condition_type.chars().collect();
    let mut snake = String::with_capacity(condition_type.len() + 4);
    for (index, &letter) in letters.iter().enumerate() {
        if letter.is_ascii_uppercase() && index > 0 {
            let before = letters[index - 1];
            let starts_word = letters.get(index + 1).is_some_and(char::is_ascii_lowercase);
            let ends_word = before.is_ascii_lowercase() || before.is_ascii_digit();
            if ends_word || starts_word {
                snake.push('_');
            }
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repair_continues_while_at_most_a_fifth_of_nodes_is_unhealthy() {
        let cases = [
            ("40/NR-09", 3, 10, false),
            ("at the limit", 2, 10, true),
            ("40/NR-11, 45/RM-9", 1, 3, true),
            ("two of three", 2, 3, false),
            ("only one", 1, 1, true),
            ("none", 0, 0, true),
            ("of none", 1, 0, false),
        ];
        for (case, unhealthy, population, expected) in cases {
            assert_eq!(is_tolerable(unhealthy, population), expected, "{case}");
        }
    }

    #[test]
    fn condition_types_are_snake_case_in_metrics() {
        let cases = [
            ("KernelReady", "kernel_ready"),
            ("Ready", "ready"),
            ("AcceleratedHardwareReady", "accelerated_hardware_ready"),
            ("GPUReady", "gpu_ready"),
            ("DiskX2Full", "disk_x2_full"),
            ("example.com/Bad", "example.com/_bad"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(snake_case(text), expected);
        }
    }
}
