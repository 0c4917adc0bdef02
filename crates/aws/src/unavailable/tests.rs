//! Tests of unavailable offerings: cases U1 to U5 of spec 51.

use karpenter_operator::clock::TokioClock;

use super::*;

fn key(instance_type: &str, zone: &str, capacity_type: &str) -> OfferingKey {
    OfferingKey {
        instance_type: instance_type.to_owned(),
        capacity_type: capacity_type.to_owned(),
        zone: zone.to_owned(),
        scope: None,
    }
}

fn cache() -> (Arc<TokioClock>, UnavailableOfferings) {
    let clock = Arc::new(TokioClock::starting_at(jiff::Timestamp::UNIX_EPOCH));
    (Arc::clone(&clock), UnavailableOfferings::new(clock))
}

fn is_gone(cache: &UnavailableOfferings, key: &OfferingKey, subnets: &[&str]) -> bool {
    let subnets: Vec<_> = subnets.iter().map(|&subnet| subnet.to_owned()).collect();
    cache.is_unavailable(key, &subnets)
}

#[tokio::test]
async fn a_mark_concerns_its_own_offering() {
    let (_, cache) = cache();
    let marked = key("m5.large", "1a", "on-demand");
    cache.mark(marked.clone(), MarkContext::default());
    assert!(is_gone(&cache, &marked, &[]), "51/U1");
    assert!(!is_gone(&cache, &key("m5.xlarge", "1b", "spot"), &[]), "51/U1");
    for other in [
        key("m5.xlarge", "1a", "on-demand"),
        key("m5.large", "1b", "on-demand"),
        key("m5.large", "1a", "spot"),
    ] {
        assert!(!is_gone(&cache, &other, &[]), "51/U1: {other:?}");
    }
}

#[tokio::test]
async fn a_capacity_type_concerns_all_types() {
    let (_, cache) = cache();
    cache.mark_capacity_type("spot");
    assert!(!is_gone(&cache, &key("m5.large", "1a", "on-demand"), &[]), "51/U2");
    assert!(is_gone(&cache, &key("c5.large", "1b", "spot"), &[]), "51/U2");
}

#[tokio::test]
async fn subnets_count_when_all_are_marked() {
    let (_, cache) = cache();
    cache.mark_subnet("s1");
    let offering = key("m5.large", "1a", "spot");
    assert!(!is_gone(&cache, &offering, &["s1", "s2"]), "51/U3");
    assert!(is_gone(&cache, &offering, &["s1"]), "51/U3");
    assert!(!is_gone(&cache, &offering, &[]), "51/U3");
}

#[tokio::test(start_paused = true)]
async fn sequence_numbers_grow_with_marks_and_evictions() {
    let (clock, cache) = cache();
    let (marked, other) = (key("m5.large", "1a", "spot"), "c5.large");
    let start = cache.sequence("m5.large");
    cache.mark(marked.clone(), MarkContext::default());
    assert_eq!((cache.sequence("m5.large"), cache.sequence(other)), (start + 1, start), "51/U4");

    clock.sleep(Duration::from_mins(2)).await;
    cache.mark(marked.clone(), MarkContext::default());
    clock.sleep(Duration::from_mins(2)).await;
    cache.sweep();
    assert!(is_gone(&cache, &marked, &[]), "51 §9: a second mark extends the time");
    assert_eq!(cache.sequence("m5.large"), start + 2, "51/U4");

    clock.sleep(Duration::from_secs(61)).await;
    assert!(!is_gone(&cache, &marked, &[]), "51 §9: expired before the sweep");
    assert_eq!(cache.sequence("m5.large"), start + 2, "51 §9: the sweep counts");
    let version = cache.version();
    cache.sweep();
    assert_eq!((cache.sequence("m5.large"), cache.version()), (start + 3, version + 1), "51/U4");

    cache.mark_subnet("s1");
    cache.mark_capacity_type("spot");
    assert_eq!(cache.sequence(other), start + 2, "51 §9: every type");
    let before = cache.sequence("m5.large");
    cache.flush();
    assert_eq!(cache.sequence("m5.large"), before, "51 §9: a flush changes no number");
    assert!(!is_gone(&cache, &marked, &["s1"]), "51 §9");
}

#[tokio::test]
async fn a_scoped_mark_concerns_its_placement_group() {
    let (_, cache) = cache();
    let scope =
        |group: &str| Some(PlacementScope { placement_group: group.to_owned(), partition: None });
    let plain = key("m5.large", "1a", "spot");
    let scoped = OfferingKey { scope: scope("pg-1"), ..plain.clone() };
    cache.mark(scoped.clone(), MarkContext::default());
    assert!(!is_gone(&cache, &plain, &[]), "51/U5");
    assert!(is_gone(&cache, &scoped, &[]), "51/U5");
    assert!(!is_gone(&cache, &OfferingKey { scope: scope("pg-2"), ..plain }, &[]), "51/U5");
}
