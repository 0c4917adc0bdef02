//! Explains why NodePools launch nothing, where the controller's texts only state it.

use karpenter_core::disruption::Rejection;
use karpenter_core::rejection::PodRejection;

use super::report::RetainedNode;
use crate::plan::rejection_text::NodePoolRejection;

/// How many NodePools the text of one node names.
const NAMED_MAX: usize = 3;

/// Adds the reasons why pools launch nothing to the texts of retained nodes. Calls `left_out` only
/// if a text needs it.
pub(super) fn explain_excluded_pools(
    kept: &mut [RetainedNode],
    left_out: impl FnOnce() -> Vec<NodePoolRejection>,
) {
    let vague = PodRejection::NoUsablePool.to_string();
    let not_found = Rejection::PoolNotFound { pool: String::new() }.to_string();
    let not_found = not_found.trim_end_matches("=)");
    let is_vague =
        |kept: &RetainedNode| kept.text.contains(&vague) || kept.text.starts_with(not_found);
    if !kept.iter().any(is_vague) {
        return;
    }
    let left_out = left_out();
    let all = no_pool_text(&left_out);
    for kept in kept.iter_mut().filter(|kept| is_vague(kept)) {
        if kept.text.contains(&vague) {
            kept.text = kept.text.replace(&vague, &all);
        } else if let Some(text) =
            left_out.iter().find_map(|pool| excluded_pool_text(pool, &kept.text))
        {
            kept.text = text;
        }
    }
}

/// Returns why no pool launches anything.
fn no_pool_text(left_out: &[NodePoolRejection]) -> String {
    if left_out.is_empty() {
        return "there is no NodePool".to_owned();
    }
    let texts = left_out.iter().take(NAMED_MAX).map(|pool| match &pool.node_pool {
        Some(name) => format!("NodePool {name}: {}", pool.problem),
        None => pool.problem.clone(),
    });
    let others = left_out.len().saturating_sub(NAMED_MAX);
    let others = (others > 0).then(|| format!("{others} more"));
    let texts: Vec<_> = texts.chain(others).collect();
    format!("no NodePool can launch a node: {}", texts.join("; "))
}

/// Returns why the pool is excluded, if `text` reports it as not found.
fn excluded_pool_text(verdict: &NodePoolRejection, text: &str) -> Option<String> {
    let pool = verdict.node_pool.clone()?;
    let problem = format!("NodePool {pool} is left out: {}", verdict.problem);
    (text == Rejection::PoolNotFound { pool }.to_string()).then_some(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool_rejection(pool: &str, problem: &str) -> NodePoolRejection {
        let (node_pool, problem) = (Some(pool.to_owned()), problem.to_owned());
        NodePoolRejection { node_pool, problem, fix: None, nearest: Vec::new() }
    }

    fn explained_text(text: &str, left_out: Vec<NodePoolRejection>) -> String {
        let (node, text) = ("n".to_owned(), text.to_owned());
        let mut kept = [RetainedNode {
            node,
            reason: "Blocked",
            text,
            blocked_by: Vec::new(),
            drifted: false,
        }];
        explain_excluded_pools(&mut kept, || left_out);
        let [kept] = kept;
        kept.text
    }

    #[test]
    fn the_problem_of_the_node_pool_replaces_a_vague_reason() {
        let vague = "Not all pods would schedule, a/b => nodepool requirements filtered out all \
                     available instance types ";
        let head = "Not all pods would schedule, a/b => ";
        assert_eq!(explained_text(vague, Vec::new()), format!("{head}there is no NodePool "));
        let pools =
            ["v", "w", "x", "y", "z"].map(|name| pool_rejection(name, "is not ready")).to_vec();
        assert_eq!(
            explained_text(vague, pools),
            format!(
                "{head}no NodePool can launch a node: NodePool v: is not ready; NodePool w: is not \
                 ready; NodePool x: is not ready; 2 more "
            )
        );
        let missing = "NodePool not found (NodePool=a)";
        assert_eq!(explained_text(missing, vec![pool_rejection("b", "is not ready")]), missing);
        assert_eq!(
            explained_text(
                missing,
                vec![pool_rejection("b", "?"), pool_rejection("a", "its types are not known")]
            ),
            "NodePool a is left out: its types are not known"
        );
    }

    #[test]
    fn a_specific_reason_is_not_replaced() {
        let mut kept = [RetainedNode {
            node: "n".to_owned(),
            reason: "Unconsolidatable",
            text: "Can't replace with a cheaper node".to_owned(),
            blocked_by: Vec::new(),
            drifted: false,
        }];
        explain_excluded_pools(&mut kept, || unreachable!("nothing is vague"));
    }
}
