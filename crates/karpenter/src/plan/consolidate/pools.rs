//! Why NodePools launch nothing, where the controller's texts only say that they do not.

use karpenter_core::disruption::Rejection;
use karpenter_core::reason::Refusal;

use super::report::Kept;
use crate::plan::words::PoolVerdict;

/// NodePools that are told of one node.
const NAMED: usize = 3;

/// Puts why pools launch nothing into what is said about nodes. `left_out` is asked only where it
/// matters.
pub(super) fn say_why(kept: &mut [Kept], left_out: impl FnOnce() -> Vec<PoolVerdict>) {
    let vague = Refusal::NoUsablePool.to_string();
    let not_found = Rejection::PoolNotFound { pool: String::new() }.to_string();
    let not_found = not_found.trim_end_matches("=)");
    let is_vague = |kept: &Kept| kept.text.contains(&vague) || kept.text.starts_with(not_found);
    if !kept.iter().any(is_vague) {
        return;
    }
    let left_out = left_out();
    let all = no_pool(&left_out);
    for kept in kept.iter_mut().filter(|kept| is_vague(kept)) {
        if kept.text.contains(&vague) {
            kept.text = kept.text.replace(&vague, &all);
        } else if let Some(text) = left_out.iter().find_map(|pool| unusable(pool, &kept.text)) {
            kept.text = text;
        }
    }
}

/// Why there is no pool that launches anything.
fn no_pool(left_out: &[PoolVerdict]) -> String {
    if left_out.is_empty() {
        return "there is no NodePool".to_owned();
    }
    let told = left_out.iter().take(NAMED).map(|pool| match &pool.node_pool {
        Some(name) => format!("NodePool {name}: {}", pool.what),
        None => pool.what.clone(),
    });
    let others = left_out.len().saturating_sub(NAMED);
    let others = (others > 0).then(|| format!("{others} more"));
    let told: Vec<_> = told.chain(others).collect();
    format!("no NodePool can launch a node: {}", told.join("; "))
}

/// What is the matter with the pool, if `text` says that it is not there.
fn unusable(verdict: &PoolVerdict, text: &str) -> Option<String> {
    let pool = verdict.node_pool.clone()?;
    let what = format!("NodePool {pool} is left out: {}", verdict.what);
    (text == Rejection::PoolNotFound { pool }.to_string()).then_some(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(pool: &str, what: &str) -> PoolVerdict {
        let (node_pool, what) = (Some(pool.to_owned()), what.to_owned());
        PoolVerdict { node_pool, what, fix: None, nearest: Vec::new() }
    }

    fn said(text: &str, left_out: Vec<PoolVerdict>) -> String {
        let (node, text) = ("n".to_owned(), text.to_owned());
        let mut kept =
            [Kept { node, reason: "Blocked", text, blocked_by: Vec::new(), drifted: false }];
        say_why(&mut kept, || left_out);
        let [kept] = kept;
        kept.text
    }

    #[test]
    fn the_real_reason_is_told_instead_of_a_vague_one() {
        let vague = "Not all pods would schedule, a/b => nodepool requirements filtered out all \
                     available instance types ";
        let head = "Not all pods would schedule, a/b => ";
        assert_eq!(said(vague, Vec::new()), format!("{head}there is no NodePool "));
        let pools = ["v", "w", "x", "y", "z"].map(|name| verdict(name, "is not ready")).to_vec();
        assert_eq!(
            said(vague, pools),
            format!(
                "{head}no NodePool can launch a node: NodePool v: is not ready; NodePool w: is not \
                 ready; NodePool x: is not ready; 2 more "
            )
        );
        let missing = "NodePool not found (NodePool=a)";
        assert_eq!(said(missing, vec![verdict("b", "is not ready")]), missing);
        assert_eq!(
            said(missing, vec![verdict("b", "?"), verdict("a", "its types are not known")]),
            "NodePool a is left out: its types are not known"
        );
    }

    #[test]
    fn nobody_is_asked_where_all_is_said() {
        let mut kept = [Kept {
            node: "n".to_owned(),
            reason: "Unconsolidatable",
            text: "Can't replace with a cheaper node".to_owned(),
            blocked_by: Vec::new(),
            drifted: false,
        }];
        say_why(&mut kept, || unreachable!("nothing is vague"));
    }
}
