//! The pods of upstream's scheduler benchmark (spec 20 §6.2), drawn from an own generator.

use super::{PodBuilder, pod, spread, term};
use crate::requirement::Operator;

/// A generator of pseudo-random numbers that depend only on its seed (splitmix64).
#[derive(Clone, Debug)]
pub struct SeededRng(u64);

impl SeededRng {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of some things, all equally likely.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        let count = u64::try_from(items.len()).expect("a length");
        let position = usize::try_from(self.next_u64() % count).expect("below a length");
        items[position]
    }
}

const LETTERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// A fifth each of plain pods, zone spread, hostname spread, zone affinity and hostname
/// anti-affinity; the rest is plain.
pub fn diverse_mix(count: usize, rng: &mut SeededRng) -> Vec<PodBuilder> {
    let fifth = count / 5;
    let mut pods = Vec::with_capacity(count);
    for number in 0..count {
        let kind = number.checked_div(fifth).unwrap_or(0);
        let named = |kind: &str| pod(&format!("{kind}-{number}")).without_app_label();
        let built = match kind {
            1 | 2 => {
                let (name, key) = if kind == 1 { ("zonal", "zone") } else { ("apart", "hostname") };
                let (own, other) = (rng.pick(&LETTERS), rng.pick(&LETTERS));
                let constraint = spread(key, 1).selecting(&[("my-label", other)]);
                named(name).label("my-label", own).spread(constraint)
            }
            3 => {
                let label = [("my-affininity", rng.pick(&LETTERS))];
                let near = term("zone").selecting(&label);
                named("together").label(label[0].0, label[0].1).pod_affinity(near)
            }
            4 => {
                let away = term("hostname").selecting(&[("app", "nginx")]);
                named("alone").label("app", "nginx").pod_anti_affinity(away)
            }
            _ => named("plain").label("my-label", rng.pick(&LETTERS)),
        };
        pods.push(sized(built, rng));
    }
    pods
}

/// Pods of one size that prefer a zone, and to be away from each other.
pub fn preference_mix(count: usize, rng: &mut SeededRng) -> Vec<PodBuilder> {
    let nginx = [("app", "nginx")];
    let one = pod("nginx")
        .prefer(1, "zone", Operator::In, &["test-zone-1"])
        .prefer_pod_anti_affinity(10, term("zone").selecting(&nginx))
        .prefer_pod_anti_affinity(1, term("hostname").selecting(&nginx));
    vec![sized(one, rng).uid("").replicas(count)]
}

fn sized(pod: PodBuilder, rng: &mut SeededRng) -> PodBuilder {
    let cpu = rng.pick(&["100m", "250m", "500m", "1", "1500m"]);
    let memory = rng.pick(&["100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi"]);
    let pod = pod.cpu(cpu).memory(memory);
    let uid = format!("{:016x}", rng.next_u64());
    pod.uid(&uid)
}
