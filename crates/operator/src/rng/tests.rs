//! Tests of seeded random numbers: repeatability, forks and distributions.

use std::collections::BTreeSet;

use super::*;

fn first_numbers(mut rng: SeededRng) -> [u64; 4] {
    std::array::from_fn(|_| rng.u64())
}

#[test]
fn a_seed_gives_the_same_numbers_everywhere() {
    // The published first numbers of SplitMix64 for this seed.
    let expected = [
        6_457_827_717_110_365_317,
        3_203_168_211_198_807_973,
        9_817_491_932_198_370_423,
        4_593_380_528_125_082_431,
    ];
    assert_eq!(first_numbers(SeededRng::new(1_234_567)), expected);
    let names = first_numbers(SeededRng::new(1).fork("names"));
    assert_eq!(names[0], 6_916_738_759_173_476_546, "forks are as stable as seeds");
}

#[test]
fn a_derived_rng_does_not_depend_on_earlier_use_of_its_parent() {
    let untouched = SeededRng::new(7).fork("names");
    let mut used = SeededRng::new(7);
    used.u128();
    drop(used.fork("faults"));
    used.u64();
    assert_eq!(first_numbers(untouched), first_numbers(used.fork("names")));
}

#[test]
fn seeds_and_purposes_give_different_numbers() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let root = SeededRng::new(seed);
        for purpose in ["", "a", "b", "ab", "ba"] {
            seen.insert(root.fork(purpose).u64());
            seen.insert(root.fork(purpose).fork("a").u64());
        }
        seen.insert(SeededRng::new(seed).u64());
    }
    assert_eq!(seen.len(), 100 * 11);
    assert_ne!(unpredictable_seed(), unpredictable_seed());
}

#[test]
fn range_draws_every_number_of_the_range_and_no_other() {
    let mut rng = SeededRng::new(3);
    let drawn: BTreeSet<u64> = (0..200).map(|_| rng.range(5..9)).collect();
    assert_eq!(drawn, (5..9).collect());
    assert_eq!(rng.range(4..4), 4);
    let backwards = Range { start: 9, end: 2 };
    assert_eq!(rng.range(backwards), 9);
    assert!(rng.range(0..u64::MAX) < u64::MAX);
}

#[test]
fn pick_from_an_empty_slice_returns_none() {
    let mut rng = SeededRng::new(3);
    assert_eq!(rng.pick::<u8>(&[]), None);
    let picked: BTreeSet<_> = (0..100).filter_map(|_| rng.pick(&["a", "b", "c"])).collect();
    assert_eq!(picked, BTreeSet::from([&"a", &"b", &"c"]));
}

#[test]
fn a_shuffle_keeps_the_items_and_reaches_every_order() {
    let mut rng = SeededRng::new(3);
    let orders: BTreeSet<[u8; 3]> = (0..200)
        .map(|_| {
            let mut items = [1, 2, 3];
            rng.shuffle(&mut items);
            items
        })
        .collect();
    let all = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]];
    assert_eq!(orders, BTreeSet::from(all));
}

#[test]
fn random_durations_stay_within_their_bounds() {
    let mut rng = SeededRng::new(3);
    let (short, long) = (Duration::from_secs(10), Duration::from_secs(15));
    let drawn: BTreeSet<_> = (0..100).map(|_| rng.jitter(short, 0.5)).collect();
    assert!(drawn.len() > 90);
    assert!(drawn.iter().all(|drawn| (short..long).contains(drawn)));
    let drawn: BTreeSet<_> = (0..100).map(|_| rng.duration(short..long)).collect();
    assert!(drawn.len() > 90);
    assert!(drawn.iter().all(|drawn| (short..long).contains(drawn)));
    assert_eq!(rng.duration(long..short), long);
    assert_eq!(rng.jitter(Duration::MAX, 1e9), Duration::MAX);
}

#[test]
fn random_bool_has_the_requested_probability() {
    let mut rng = SeededRng::new(3);
    let count = |rng: &mut SeededRng, p| (0..10_000).filter(|_| rng.random_bool(p)).count();
    assert_eq!(count(&mut rng, 0.0), 0);
    assert_eq!(count(&mut rng, 1.0), 10_000);
    assert!((2_800..3_200).contains(&count(&mut rng, 0.3)));
}
