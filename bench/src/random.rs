//! A small seeded generator of random numbers, the same on every host.

/// A SplitMix64 generator, good enough to draw workloads.
#[derive(Clone, Debug)]
pub struct SeededRng(u64);

impl SeededRng {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream for a part of the work, so that what one part draws does not shift the others.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    /// A number from 0 to 1, exclusive.
    pub fn unit(&mut self) -> f64 {
        // 53 bits are what a double holds exactly.
        #[expect(clippy::cast_precision_loss, reason = "that is the point")]
        let fraction = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        fraction
    }

    /// Returns true with this probability.
    pub fn rng(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// One of the items, each as likely as the others.
    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// `count` different items, in random order.
    pub fn sample<T: Clone>(&mut self, items: &[T], count: usize) -> Vec<T> {
        let mut left = items.to_vec();
        (0..count.min(items.len())).map(|_| left.swap_remove(self.below(left.len()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::SeededRng;

    #[test]
    fn a_seed_always_gives_the_published_numbers() {
        // The published first numbers of SplitMix64 for this seed.
        let mut random = SeededRng::new(1_234_567);
        let first = [random.next(), random.next(), random.next()];
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(first, expected);
    }

    #[test]
    fn a_sample_has_no_item_twice() {
        let mut sample = SeededRng::new(3).sample(&[1, 2, 3, 4], 4);
        sample.sort_unstable();
        assert_eq!(sample, [1, 2, 3, 4]);
    }
}
