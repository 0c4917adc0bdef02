//! What it costs to move a pod (spec 30 §3.6, spec 45 §9.4).

/// The largest cost of one pod, positive or negative.
const COST_MAX: f64 = 10.0;
/// By how much costs that users write, and priorities, are scaled down.
const COST_SCALE: f64 = 134_217_728.0; // 2^27
const PRIORITY_SCALE: f64 = 33_554_432.0; // 2^25

/// Returns the cost of evicting a pod, from −10 to 10; 1 by default.
/// `disruption_cost` is the annotation `karpenter.sh/disruption-cost`. If it is present it decides,
/// valid or not; else `deletion_cost`, the annotation of ReplicaSets, does. A value that is no
/// 32-bit integer counts as 0.
pub fn eviction_cost(
    disruption_cost: Option<&str>,
    deletion_cost: Option<&str>,
    priority: Option<i32>,
) -> f64 {
    let written = disruption_cost.or(deletion_cost);
    let cost = written.and_then(parse_cost).unwrap_or_default();
    let priority = priority.unwrap_or_default();
    let sum = 1.0 + f64::from(cost) / COST_SCALE + f64::from(priority) / PRIORITY_SCALE;
    sum.clamp(-COST_MAX, COST_MAX)
}

/// Whether the text of such an annotation can be read.
pub fn is_eviction_cost(text: &str) -> bool {
    parse_cost(text).is_some()
}

fn parse_cost(text: &str) -> Option<i32> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eviction_cost_follows_from_annotations_and_priority() {
        let big = 1 << 27;
        let (big_text, half) = (big.to_string(), (big / 2).to_string());
        #[rustfmt::skip]
        let cases = [
            // case         disruption-cost   deletion-cost    priority        cost
            ("plain",       None,             None,            None,           1.0),
            ("45/EC-1",     Some(&*half),     Some(&*big_text), None,          1.5),
            ("45/EC-2",     None,             Some(&*big_text), None,          2.0),
            ("45/EC-3",     Some("abc"),      Some("100"),     None,           1.0),
            ("45/EC-4",     None,             Some("1.5"),     None,           1.0),
            ("priority",    None,             None,            Some(1 << 25),  2.0),
            ("30/COST-2",   None,             Some("2147483647"), None,         10.0),
            ("30/COST-2",   None,             Some("-2147483647"), None,        -10.0),
            ("at most",     None,             None,            Some(i32::MAX), 10.0),
            ("at least",    None,             None,            Some(i32::MIN), -10.0),
            ("too large",   Some("99999999999"), None,         None,           1.0),
        ];
        let of = |deletion_cost, priority| eviction_cost(None, deletion_cost, priority);
        assert!(of(Some("100"), None) > 1.0 && of(Some("-100"), None) < 1.0, "30/COST-1");
        assert!(of(Some("200"), None) > of(Some("100"), None), "30/COST-1");
        assert!(of(None, Some(1)) > 1.0 && of(None, Some(-1)) < 1.0, "30/COST-1");
        for (case, disruption_cost, deletion_cost, priority, expected) in cases {
            let cost = eviction_cost(disruption_cost, deletion_cost, priority);
            assert!((cost - expected).abs() < 1e-9, "{case}: {cost}");
        }
    }
}
