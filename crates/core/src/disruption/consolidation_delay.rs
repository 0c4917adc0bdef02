//! Delays consolidation while nodes are about to become consolidatable.
//!
//! While its consolidateAfter has not passed, a node can neither be removed nor take pods of other
//! nodes, and while pods terminate there it has less capacity than a moment later. When a
//! Deployment is scaled down, its nodes become consolidatable one after the other, within seconds:
//! a decision on the first of them makes a small part of the cluster the destination of the rest,
//! and another round has to follow for the nodes that it could not consider. A round takes half a
//! minute, so a delay of a few seconds pays.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{ConsolidationPolicy, PassContext, SearchMode};
use crate::id::NodeId;
use crate::lifecycle::consolidatable::{Step, next};
use crate::snapshot::{ManagedPool, StateNode};

/// Consolidation does not wait for nodes that need longer.
const NODE_WAIT_MAX: Duration = Duration::from_secs(10);
/// The longest that consolidation waits; pods may come and go continuously.
const TOTAL_WAIT_MAX: SignedDuration = SignedDuration::from_secs(20);
/// The shortest wait for a node.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// Consolidation waits only for at least one in so many nodes.
/// In a large cluster some node is always about to become consolidatable.
const WAITING_SHARE_DIVISOR: usize = 32;

/// Returns how long consolidation should still wait; none if it should run.
/// It has been waiting since `since`.
pub fn consolidation_delay(context: &PassContext<'_>, since: Timestamp) -> Option<Duration> {
    let is_over = context.now.duration_since(since) >= TOTAL_WAIT_MAX;
    if is_over || context.settings.search == SearchMode::Upstream {
        return None;
    }
    let nodes = &context.snapshot.nodes;
    let consolidated = |node: &StateNode| consolidated_pool(context, node).is_some();
    let mut waits: Vec<_> =
        nodes.iter().map(|node| time_until_consolidatable(context, node)).collect();
    for pod in context.snapshot.pods.iter().filter(|pod| pod.terminating) {
        if let Some(at) = pod.node.map(NodeId::index)
            && nodes.get(at).is_some_and(|node| consolidated(node))
        {
            waits[at] = waits[at].max(Some(WAIT_MIN));
        }
    }
    let count = nodes.iter().filter(|node| consolidated(node)).count();
    let (waited_for, longest) = (waits.iter().flatten().count(), waits.iter().flatten().max());
    longest.copied().filter(|_| waited_for * WAITING_SHARE_DIVISOR >= count)
}

/// Returns the NodePool of a node, if it consolidates nodes with pods.
fn consolidated_pool<'a>(context: &PassContext<'a>, node: &StateNode) -> Option<&'a ManagedPool> {
    let pool = context.snapshot.managed_pools.get(node.pool.as_ref()?)?;
    let is_meant = pool.replicas.is_none() && pool.policy != ConsolidationPolicy::WhenEmpty;
    (is_meant && pool.pool.consolidate_after.is_some()).then_some(pool)
}

/// Returns how long until a node becomes consolidatable, if that is soon.
fn time_until_consolidatable(context: &PassContext<'_>, node: &StateNode) -> Option<Duration> {
    let standing = &node.disruption_state;
    let is_going = node.is_deleting || standing.is_rebooting;
    if standing.is_consolidatable || is_going || !node.is_initialized {
        return None;
    }
    let after = consolidated_pool(context, node)?.pool.consolidate_after;
    match next(after, node.initialized_at, node.last_pod_event, context.now) {
        Step::Wait(rest) => (rest <= NODE_WAIT_MAX).then_some(rest.max(WAIT_MIN)),
        Step::Set => Some(WAIT_MIN),
        Step::Clear(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disruption::Settings;
    use crate::testing::{self, PoolBuilder, node, pod, pool};

    /// Returns the delay in whole seconds, `ago` seconds after a pod event.
    fn delay_after_pod_event(
        ago: i64,
        pool: PoolBuilder,
        search: SearchMode,
        change: fn(&mut StateNode),
    ) -> Option<u64> {
        const CHANGED: i64 = 100;
        let mut world = testing::World::empty().pool(pool).node(
            node("n")
                .initialized_and_last_pod_event_at(Some(0), Some(CHANGED))
                .disruption_state(|standing| standing.is_consolidatable = false),
        );
        change(&mut world.snapshot.nodes[0]);
        let settings = Settings { search, ..Settings::default() };
        let now = Timestamp::from_second(CHANGED + ago).expect("a time");
        let context = PassContext::new(&world.snapshot, &world.catalog, &settings, now);
        consolidation_delay(&context, now).map(|wait| wait.as_secs())
    }

    #[test]
    fn consolidation_waits_for_nodes_about_to_become_consolidatable() {
        let after = || pool("default").consolidate_after(30);
        let (best, unchanged) = (SearchMode::Best, |_: &mut StateNode| ());
        #[rustfmt::skip]
        let cases = [
            ("too far away",       delay_after_pod_event(19, after(), best, unchanged),                              None),
            ("soon",               delay_after_pod_event(20, after(), best, unchanged),                              Some(10)),
            ("sooner",             delay_after_pod_event(27, after(), best, unchanged),                              Some(3)),
            ("not yet said",       delay_after_pod_event(31, after(), best, unchanged),                              Some(1)),
            ("deep",               delay_after_pod_event(27, after(), SearchMode::Deep, unchanged),                      Some(3)),
            ("as upstream",        delay_after_pod_event(27, after(), SearchMode::Upstream, unchanged),                  None),
            ("no consolidateAfter",delay_after_pod_event(27, pool("default"), best, unchanged),                      Some(1)),
            ("never",              delay_after_pod_event(27, pool("default").never_consolidates(), best, unchanged), None),
            ("only empty nodes",   delay_after_pod_event(27, after().policy(ConsolidationPolicy::WhenEmpty), best, unchanged), None),
            ("static",             delay_after_pod_event(27, after().replicas(1), best, unchanged),                  None),
            ("consolidatable",     delay_after_pod_event(27, after(), best, |n| n.disruption_state.is_consolidatable = true), None),
            ("going",              delay_after_pod_event(27, after(), best, |n| n.is_deleting = true),               None),
            ("rebooting",          delay_after_pod_event(27, after(), best, |n| n.disruption_state.is_rebooting = true),     None),
            ("starting",           delay_after_pod_event(27, after(), best, |n| n.is_initialized = false),           None),
            ("of nobody",          delay_after_pod_event(27, after(), best, |n| n.pool = None),                      None),
        ];
        for (case, found, expected) in cases {
            assert_eq!(found, expected, "{case}");
        }
    }

    #[test]
    fn consolidation_waits_for_the_last_node_within_a_limit() {
        let young = |name: &str, event| {
            let node = node(name).initialized_and_last_pod_event_at(Some(0), Some(event));
            node.disruption_state(|standing| standing.is_consolidatable = false)
        };
        let pool = pool("default").consolidate_after(10);
        let world = testing::World::empty().pool(pool).node(young("a", 97)).node(young("b", 99));
        let settings = Settings::default();
        let at = |second| Timestamp::from_second(second).expect("a time");
        let context = PassContext::new(&world.snapshot, &world.catalog, &settings, at(100));
        assert_eq!(consolidation_delay(&context, at(81)), Some(Duration::from_secs(9)));
        assert_eq!(consolidation_delay(&context, at(80)), None);
    }

    #[test]
    fn consolidation_waits_for_nodes_with_terminating_pods_unless_few() {
        let world_of = |others: usize| {
            let mut world = testing::World::empty().pool(pool("default")).node(node("n"));
            for other in 0..others {
                world = world.node(node(&format!("o{other}")));
            }
            world.pod(pod("p").on_node("n"))
        };
        let wait = |world: &testing::World| {
            let settings = Settings::default();
            let now = Timestamp::from_second(100).expect("a time");
            consolidation_delay(
                &PassContext::new(&world.snapshot, &world.catalog, &settings, now),
                now,
            )
        };
        let ending = |mut world: testing::World| {
            world.snapshot.pods[0].terminating = true;
            world
        };
        assert_eq!(wait(&world_of(0)), None);
        assert_eq!(wait(&ending(world_of(0))), Some(WAIT_MIN));
        assert_eq!(wait(&ending(world_of(31))), Some(WAIT_MIN));
        assert_eq!(wait(&ending(world_of(32))), None);
        let mut going = ending(world_of(0));
        going.snapshot.nodes[0].is_deleting = true;
        assert_eq!(wait(&going), Some(WAIT_MIN));
    }
}
