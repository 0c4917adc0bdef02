//! Seeded random numbers: every random number of a process derives from one seed.
//!
//! A seed is split by purpose; the numbers of a purpose depend neither on other purposes nor on the
//! order in which they were split off. So the same seed gives the same names and the same faults,
//! although tasks run in another order. Numbers are the same on every platform. Not for secrets:
//! the seed reveals all numbers.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// A random number generator for one purpose (SplitMix64).
///
/// It is not `Clone`, since two sources with the same numbers are rarely meant: split it.
#[derive(Debug)]
pub struct SeededRng {
    seed: u64,
    state: u64,
}

/// Returns a random seed, for a process without a given one. Log it, so that the run can be
/// repeated.
pub fn unpredictable_seed() -> u64 {
    // The keys of the standard library's hash tables come from the system.
    RandomState::new().build_hasher().finish()
}

impl SeededRng {
    /// Creates the generator of a process.
    pub fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// Returns the generator of a purpose, or of one object in it. It depends on the seed and the
    /// purpose alone, not on drawn numbers.
    #[must_use]
    pub fn fork(&self, purpose: &str) -> Self {
        let hash = purpose
            .bytes()
            .fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
        // Mixed twice, so that forks of forks do not depend on the order of their names alone.
        Self::new(mixed(mixed(self.seed).wrapping_add(hash)))
    }

    /// 64 random bits.
    pub fn u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mixed(self.state)
    }

    /// 128 random bits, for uids and the like.
    pub fn u128(&mut self) -> u128 {
        (u128::from(self.u64()) << 64) | u128::from(self.u64())
    }

    /// A random UUID (version 4) as text.
    pub fn uuid(&mut self) -> String {
        let bits = self.u128();
        let hex = format!("{bits:032x}");
        let variant = 8 + ((bits >> 62) & 3);
        format!(
            "{}-{}-4{}-{variant:x}{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[13..16],
            &hex[17..20],
            &hex[20..]
        )
    }

    /// A number from 0 up to, but not including, 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub fn f64(&mut self) -> f64 {
        (self.u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number of the range; its start if it is empty. The bias of a range of n is n in 2^64.
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        let width = range.end.saturating_sub(range.start);
        let offset = (u128::from(self.u64()) * u128::from(width)) >> 64;
        range.start + u64::try_from(offset).expect("below the width, which is a u64")
    }

    /// Returns true with this probability.
    pub fn random_bool(&mut self, probability: f64) -> bool {
        self.f64() < probability
    }

    /// One of the items, if there is any.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// Puts the items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            let chosen = self.index(end);
            items.swap(chosen, end - 1);
        }
    }

    /// The duration, longer by up to `factor` of it.
    pub fn jitter(&mut self, duration: Duration, factor: f64) -> Duration {
        let extra = duration.as_secs_f64() * factor * self.f64();
        duration.saturating_add(Duration::try_from_secs_f64(extra).unwrap_or_default())
    }

    /// A duration of the range; its start if it is empty.
    pub fn duration(&mut self, range: Range<Duration>) -> Duration {
        let width = range.end.saturating_sub(range.start);
        range.start + width.mul_f64(self.f64())
    }

    /// A position in a list of this length; 0 if it is empty.
    fn index(&mut self, len: usize) -> usize {
        let index = self.range(0..u64::try_from(len).unwrap_or(u64::MAX));
        usize::try_from(index).expect("below the length")
    }
}

/// Odd, and as far as possible from being a simple fraction of 2^64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// SplitMix64's bijection: every bit of the result depends on every bit of the value.
fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
