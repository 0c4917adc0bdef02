//! Static NodePools: `spec.replicas` nodes, pods or not (spec 10 §14.4, spec 30 §11).

use jiff::SignedDuration;

/// Whether pending pods may make this NodePool grow.
/// A pool with `replicas` never grows for them, even while the gate StaticCapacity is off and no
/// controller maintains its replicas.
pub fn serves_pending_pods(replicas: Option<i64>) -> bool {
    replicas.is_none()
}

/// The NodeClaims of a static pool, each in one of the first three states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimCounts {
    /// Running, or on the way there.
    pub active: u32,
    /// Being deleted.
    pub deleting: u32,
    /// About to be replaced by a disruption command.
    pub pending_disruption: u32,
    /// Granted already, but not created yet.
    pub reserved: u32,
}

/// What a static pool that is Ready needs to reach its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provision {
    /// It has enough. Claims about to be replaced count, since their replacements are on the way.
    Enough,
    /// It lacks some, but may have no more nodes.
    LimitReached,
    /// It gets so many new NodeClaims, which are reserved from now on.
    Create(u32),
}

impl Provision {
    /// Returns when to check the pool again if nothing happens before.
    pub fn requeue_after(self) -> SignedDuration {
        match self {
            Self::Enough | Self::Create(_) => SignedDuration::from_mins(1),
            Self::LimitReached => SignedDuration::from_secs(30),
        }
    }
}

/// How many NodeClaims a static pool gets. `node_limit` is its `limits.nodes`.
pub fn provision(replicas: i64, node_limit: Option<i64>, claims: ClaimCounts) -> Provision {
    let active = i64::from(claims.active);
    if active + i64::from(claims.pending_disruption) >= replicas {
        return Provision::Enough;
    }
    match allowed_new_nodes(node_limit, claims, replicas.saturating_sub(active)) {
        0 => Provision::LimitReached,
        granted => Provision::Create(granted),
    }
}

/// Returns how many of the `wanted` nodes fit into the node limit.
/// Deleting nodes count, since their instances still run.
pub fn allowed_new_nodes(node_limit: Option<i64>, claims: ClaimCounts, wanted: i64) -> u32 {
    let ClaimCounts { active, deleting, pending_disruption, reserved } = claims;
    let taken = [active, deleting, pending_disruption, reserved].map(i64::from).iter().sum();
    let remaining = node_limit.unwrap_or(i64::MAX).saturating_sub(taken);
    u32::try_from(wanted.min(remaining).max(0)).unwrap_or(u32::MAX)
}

/// How many NodeClaims a static pool has too many. Only active ones count: those about to be
/// replaced are about to go anyway.
pub fn excess(replicas: i64, active: u32) -> u32 {
    u32::try_from(i64::from(active).saturating_sub(replicas).max(0)).unwrap_or(u32::MAX)
}

/// How a NodeClaim of a static pool is used, which orders deletions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClaimUsage {
    /// It has no instance yet.
    Unlaunched,
    /// Its node has no pods, or only such of DaemonSets that do not mind.
    Empty,
    /// Its node has pods.
    Occupied {
        /// Whether one of them must not be disrupted now.
        is_protected: bool,
        /// What it costs to move them, times the share of its life that the node has left.
        cost: f64,
    },
}

impl ClaimUsage {
    fn deletion_rank(self) -> (u8, f64) {
        match self {
            Self::Unlaunched => (0, 0.0),
            Self::Empty => (1, 0.0),
            Self::Occupied { is_protected: false, cost } => (2, cost),
            Self::Occupied { is_protected: true, cost } => (3, cost),
        }
    }
}

/// Returns the `excess` NodeClaims whose deletion disrupts least.
/// Claims of equal usage keep the order of the list.
pub fn claims_to_delete<T>(excess: u32, mut claims: Vec<(T, ClaimUsage)>) -> Vec<T> {
    claims.sort_by(|(_, one), (_, other)| {
        let (one, other) = (one.deletion_rank(), other.deletion_rank());
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    claims.truncate(usize::try_from(excess).unwrap_or(usize::MAX));
    claims.into_iter().map(|(claim, _)| claim).collect()
}

/// The share of its life that a node has left, from 1 down to 0; one that does not expire has all.
pub fn lifetime_remaining(age: SignedDuration, expire_after: Option<SignedDuration>) -> f64 {
    match expire_after {
        Some(all) if all > SignedDuration::ZERO => {
            (1.0 - age.as_secs_f64() / all.as_secs_f64()).clamp(0.0, 1.0)
        }
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: ClaimCounts =
        ClaimCounts { active: 0, deleting: 0, pending_disruption: 0, reserved: 0 };

    #[test]
    fn a_pool_with_replicas_ignores_pending_pods() {
        // The function does not take the gate, so the gate cannot matter.
        assert!(!serves_pending_pods(Some(5)), "10/LM-5");
        assert!(!serves_pending_pods(Some(0)), "10/LM-5");
        assert!(serves_pending_pods(None), "dynamic pool");
    }

    #[test]
    fn replicas_are_created_up_to_the_node_limit() {
        use Provision::{Create, Enough, LimitReached};
        let active = |active| ClaimCounts { active, ..NONE };
        #[rustfmt::skip]
        let cases = [
            // case               replicas limit     claims                                     step
            ("10/LM-4",           5,       Some(3),  NONE,                                      Create(3)),
            ("10/LM-4",           5,       Some(3),  active(3),                                 LimitReached),
            ("no limit",          5,       None,     active(2),                                 Create(3)),
            ("enough",            3,       None,     active(3),                                 Enough),
            ("too many",          3,       None,     active(4),                                 Enough),
            ("none wanted",       0,       None,     NONE,                                      Enough),
            ("replacement comes", 3,       None,     ClaimCounts { active: 2, pending_disruption: 1, ..NONE }, Enough),
            ("40/NP-19",          3,       None,     ClaimCounts { active: 1, pending_disruption: 1, ..NONE }, Create(2)),
            ("40/NP-19",          3,       Some(3),  ClaimCounts { active: 1, pending_disruption: 1, ..NONE }, Create(1)),
            ("deleting takes room", 3,     Some(3),  ClaimCounts { active: 1, deleting: 1, ..NONE },           Create(1)),
            ("reserved takes room", 3,     Some(3),  ClaimCounts { active: 1, reserved: 2, ..NONE },           LimitReached),
            ("over the limit",    5,       Some(1),  active(2),                                 LimitReached),
            ("limit 0",           5,       Some(0),  NONE,                                      LimitReached),
        ];
        for (case, replicas, limit, claims, step) in cases {
            let got = provision(replicas, limit, claims);
            assert_eq!(got, step, "{case}: {replicas} replicas, limit {limit:?}, {claims:?}");
        }
    }

    #[test]
    fn a_static_pool_at_its_limit_is_requeued_sooner() {
        assert_eq!(Provision::LimitReached.requeue_after(), SignedDuration::from_secs(30));
        assert_eq!(Provision::Enough.requeue_after(), SignedDuration::from_secs(60));
        assert_eq!(Provision::Create(1).requeue_after(), SignedDuration::from_secs(60));
    }

    #[test]
    fn active_claims_beyond_the_replicas_are_excess() {
        for (replicas, active, expected) in
            [(2, 4, 2), (4, 4, 0), (5, 4, 0), (0, 4, 4), (i64::MIN, u32::MAX, u32::MAX)]
        {
            assert_eq!(excess(replicas, active), expected, "{active} active of {replicas}");
        }
    }

    #[test]
    fn unlaunched_and_empty_claims_are_deleted_first() {
        let occupied = |is_protected, cost| ClaimUsage::Occupied { is_protected, cost };
        let claims = || {
            vec![
                ("protected", occupied(true, 0.5)),
                ("dear", occupied(false, 2.0)),
                ("cheap", occupied(false, 1.0)),
                ("empty", ClaimUsage::Empty),
                ("empty too", ClaimUsage::Empty),
                ("unlaunched", ClaimUsage::Unlaunched),
            ]
        };
        let all = ["unlaunched", "empty", "empty too", "cheap", "dear", "protected"];
        for (case, excess, expected) in [
            ("40/NP-20", 2, &all[..2]),
            ("30/ST-7", 1, &all[..1]),
            ("30/ST-8", 4, &all[..4]),
            ("30/ST-5", 6, &all[..]),
            ("more than there are", 9, &all[..]),
            ("none", 0, &all[..0]),
        ] {
            assert_eq!(claims_to_delete(excess, claims()), expected, "{case}");
        }
    }

    #[test]
    fn the_remaining_lifetime_shrinks_to_zero() {
        let hours = SignedDuration::from_hours;
        for (age, expire_after, expected) in [
            (hours(1), None, 1.0),
            (hours(1), Some(hours(4)), 0.75),
            (hours(9), Some(hours(4)), 0.0),
            (hours(-1), Some(hours(4)), 1.0),
            (hours(1), Some(SignedDuration::ZERO), 1.0),
        ] {
            let found = lifetime_remaining(age, expire_after);
            assert!((found - expected).abs() < 1e-9, "{age:?} of {expire_after:?}: {found}");
        }
    }
}
