//! CapacityBuffers: how many virtual pods keep room free (spec 10 §5.3).

use crate::resources::Resources;

pub mod virtual_pods;

/// The most replicas that there can be.
const REPLICAS_MAX: u32 = i32::MAX.unsigned_abs();

/// The source of the virtual pods of a CapacityBuffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodSource {
    /// `podTemplateRef`: there is nothing to take a percentage of.
    PodTemplate,
    /// `scalableRef`, with the `spec.replicas` of what it points to; absent there counts as 1.
    Scalable {
        /// The replicas of the workload.
        replicas: Option<u32>,
    },
}

/// What a CapacityBuffer asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSize {
    /// The source of the virtual pods; the percentage refers to its replicas.
    pub pod_source: PodSource,
    /// `spec.percentage`.
    pub percentage: Option<u32>,
    /// `spec.replicas`.
    pub replicas: Option<u32>,
    /// `spec.limits`; empty is the same as absent.
    pub limits: Resources,
}

impl BufferSize {
    /// How many virtual pods with these requests the buffer holds.
    ///
    /// The larger of `replicas` and `percentage` counts, as upstream does (its field documentation
    /// says the smaller). Limits cap that; alone they ask for as many as fit.
    pub fn replicas_for(&self, requests: &Resources) -> u32 {
        let desired = self.replicas.max(self.percentage_replicas());
        let fitting = self.replicas_within_limits(requests);
        let replicas = match (desired, fitting) {
            (Some(desired), Some(fitting)) => desired.min(fitting),
            (desired, fitting) => desired.or(fitting).unwrap_or(0),
        };
        replicas.min(REPLICAS_MAX)
    }

    /// The percentage of the workload's replicas, rounded up. A workload without replicas gives
    /// none, and any percentage above zero of one that has some gives at least one.
    fn percentage_replicas(&self) -> Option<u32> {
        let PodSource::Scalable { replicas } = self.pod_source else {
            return None;
        };
        let replicas = replicas.unwrap_or(1);
        let percentage = self.percentage?;
        if replicas == 0 {
            return None;
        }
        let share = (u64::from(replicas) * u64::from(percentage)).div_ceil(100);
        Some(u32::try_from(share).unwrap_or(REPLICAS_MAX))
    }

    /// Returns how many pods fit into the limits.
    /// None if no limit is about a resource that such pods request.
    fn replicas_within_limits(&self, requests: &Resources) -> Option<u32> {
        self.limits
            .iter()
            .filter(|(name, _)| !requests.amount(name).is_zero())
            .map(|(name, limit)| {
                let fitting = limit.millis().div_euclid(requests.amount(name).millis());
                u32::try_from(fitting.clamp(0, REPLICAS_MAX.into())).unwrap_or(REPLICAS_MAX)
            })
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Quantity;

    fn millis(list: &[(&str, i64)]) -> Resources {
        list.iter().map(|&(name, n)| (name, Quantity::from_millis(n))).collect()
    }

    #[test]
    fn replicas_are_the_larger_of_count_and_percentage_within_limits() {
        type Millis = &'static [(&'static str, i64)];
        struct Case(&'static str, PodSource, Option<u32>, Option<u32>, Millis, Millis, u32);
        const TEMPLATE: PodSource = PodSource::PodTemplate;
        const NONE: Millis = &[];
        let scalable = |replicas| PodSource::Scalable { replicas: Some(replicas) };
        #[rustfmt::skip]
        let cases = [
            // case                workload      percentage replicas  limits                requests           expected
            Case("10/CB-7",            scalable(10), Some(20),  Some(10), NONE,                 NONE,              10),
            Case("10/CB-8",            scalable(3),  Some(10),  None,     NONE,                 NONE,              1),
            Case("10/CB-9",            TEMPLATE,     None,      Some(10), &[("cpu", 4_000)],    &[("cpu", 500)],   8),
            Case("10/CB-10",           TEMPLATE,     None,      None,     &[("cpu", 4_000)],    NONE,              0),
            Case("rounds up",          scalable(10), Some(21),  None,     NONE,                 NONE,              3),
            Case("0%",                 scalable(10), Some(0),   None,     NONE,                 NONE,              0),
            Case("percentage wins",    scalable(10), Some(50),  Some(2),  NONE,                 NONE,              5),
            Case("40/OV-12",           scalable(10), Some(20),  Some(5),  &[("cpu", 3_000)],    &[("cpu", 1_000)], 3),
            Case("40/OV-13",           scalable(10), Some(1),   None,     NONE,                 NONE,              1),
            Case("40/OV-13: none there", scalable(0), Some(50), None,     NONE,                 NONE,              0),
            Case("no percentage there", TEMPLATE,    Some(50),  Some(2),  NONE,                 NONE,              2),
            Case("absent replicas are 1", PodSource::Scalable { replicas: None }, Some(200), None, NONE, NONE,      2),
            Case("limits alone",       TEMPLATE,     None,      None,     &[("cpu", 4_000)],    &[("cpu", 1_500)], 2),
            Case("tightest limit",     TEMPLATE,     None,      None,     &[("cpu", 8_000), ("memory", 4_000)], &[("cpu", 1_000), ("memory", 1_000)], 4),
            Case("zero request",       TEMPLATE,     None,      Some(3),  &[("cpu", 0)],        &[("cpu", 0)],     3),
            Case("no common resource", TEMPLATE,     None,      Some(3),  &[("cpu", 0)],        &[("gpu", 1_000)], 3),
            Case("smaller than a pod", TEMPLATE,     None,      Some(3),  &[("cpu", 1_000)],    &[("cpu", 2_000)], 0),
            Case("limit not needed",   TEMPLATE,     None,      Some(3),  &[("cpu", 9_000)],    &[("cpu", 1_000)], 3),
            Case("limits, no wish",    scalable(0),  Some(50),  None,     &[("cpu", 9_000)],    &[("cpu", 1_000)], 9),
            Case("negative limit",     TEMPLATE,     None,      Some(3),  &[("cpu", -1_000)],   &[("cpu", 1_000)], 0),
            Case("limits clamp",       TEMPLATE,     None,      None,     &[("cpu", i64::MAX)], &[("cpu", 1)],     2_147_483_647),
            Case("percentage clamps",  scalable(u32::MAX), Some(u32::MAX), None, NONE,          NONE,              2_147_483_647),
        ];
        for Case(case, workload, percentage, replicas, limits, requests, expected) in cases {
            let size =
                BufferSize { pod_source: workload, percentage, replicas, limits: millis(limits) };
            assert_eq!(size.replicas_for(&millis(requests)), expected, "{case}: {size:?}");
        }
    }
}
