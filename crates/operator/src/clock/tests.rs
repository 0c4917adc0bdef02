use futures_util::FutureExt as _;

use super::*;

const BASE: Timestamp = Timestamp::UNIX_EPOCH;

fn second(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn clock(speed: f64) -> Arc<dyn Clock> {
    Arc::new(ScaledClock::new(BASE, speed).unwrap())
}

#[tokio::test(start_paused = true)]
async fn virtual_time_passes_only_in_sleeps() {
    let clock: Arc<dyn Clock> = Arc::new(ScaledClock::starting_at(second(1_000)));
    assert_eq!(clock.now(), second(1_000));
    clock.sleep(Duration::from_hours(10)).await;
    assert_eq!(clock.now(), second(1_000 + 36_000));
}

#[tokio::test(start_paused = true)]
async fn a_fast_clock_shows_more_time_than_it_takes() {
    let clock = clock(60.0);
    let started = Instant::now();
    clock.sleep(Duration::from_hours(1)).await;
    assert_eq!(started.elapsed(), Duration::from_mins(1));
    assert_eq!(clock.now(), second(3_600));
}

#[tokio::test(start_paused = true)]
async fn a_sleep_counts_from_its_call() {
    let clock = clock(1.0);
    let sleep = clock.sleep(Duration::from_secs(10));
    clock.sleep(Duration::from_secs(10)).await;
    assert!(sleep.now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_time_that_has_passed_is_not_waited_for() {
    let clock = clock(1.0);
    clock.sleep_until(second(-5)).await;
    assert_eq!(clock.now(), BASE);
    clock.sleep_until(second(5)).await;
    assert_eq!(clock.now(), second(5));
}

#[tokio::test(start_paused = true)]
async fn no_speed_and_no_duration_is_too_much() {
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(ScaledClock::new(BASE, speed).is_err(), "{speed}");
    }
    for speed in [f64::MIN_POSITIVE, 1.0, f64::MAX] {
        let clock = clock(speed);
        assert!(clock.sleep(Duration::ZERO).now_or_never().is_some(), "{speed}");
        let longest = clock.sleep(Duration::MAX).now_or_never();
        assert!(longest.is_none() || speed > 1e9, "{speed}");
    }
    let last: Arc<dyn Clock> = Arc::new(ScaledClock::new(Timestamp::MAX, 2.0).unwrap());
    last.sleep(Duration::from_secs(2)).await;
    assert_eq!(last.now(), Timestamp::MAX);
}

#[tokio::test(start_paused = true)]
async fn ticks_come_at_equal_distances_and_missed_ones_not_at_all() {
    let clock = clock(1.0);
    let mut interval = Interval::new(clock.clone(), Duration::from_secs(10));
    let mut ticks = Vec::new();
    for work in [0, 3, 25, 0] {
        interval.tick().await;
        ticks.push(clock.now());
        clock.sleep(Duration::from_secs(work)).await;
    }
    assert_eq!(ticks, [0, 10, 20, 45].map(second));
}

#[tokio::test(start_paused = true)]
async fn an_interval_of_nothing_lets_others_run() {
    let clock = clock(1.0);
    let mut interval = Interval::new(clock.clone(), Duration::ZERO);
    for _ in 0..3 {
        interval.tick().await;
    }
    assert!(clock.now() > BASE);
}
