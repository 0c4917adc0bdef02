//! Tests of the nodes that one cycle of pod deletion costs updates.

use super::*;

fn nodes(range: std::ops::Range<usize>) -> Vec<NodeId> {
    range.map(NodeId::new).collect()
}

#[test]
fn a_cycle_updates_fifty_nodes_and_all_deleting_nodes() {
    let all = |_, _| true;
    let ranking = NodeRanking { ranked: nodes(0..60), ..NodeRanking::default() };
    let writes = ranking.pending_updates(all);
    assert_eq!(writes.len(), 50, "45/PDC-9");
    assert_eq!(writes[0], (NodeId::new(0), Some(-60)), "45/PDC-9");
    let ranking =
        NodeRanking { deleting: nodes(60..115), ranked: nodes(0..60), unranked: nodes(115..120) };
    let writes = ranking.pending_updates(all);
    assert_eq!(writes.len(), 55 + 50, "45/PDC-9");
    assert_eq!(writes[54], (NodeId::new(114), Some(i32::MIN)), "45/PDC-3");
    let last = |node: NodeId, _| node.index() >= 50;
    let rest = ranking.pending_updates(last);
    assert_eq!(rest.len(), 55 + 10 + 5, "what is left of the fifty");
    assert_eq!(rest.last(), Some(&(NodeId::new(119), None)));
    let right = ranking.pending_updates(|_, _| false);
    assert_eq!(right, [], "45/PDC-10");
}
