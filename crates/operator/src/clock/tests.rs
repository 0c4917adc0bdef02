//! Tests of the virtual clock: sleeps, intervals and how time advances.

use futures_util::FutureExt as _;

use super::*;

const BASE: Timestamp = Timestamp::UNIX_EPOCH;

fn second(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(TokioClock::starting_at(BASE))
}

#[tokio::test(start_paused = true)]
async fn virtual_time_advances_only_during_sleeps() {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(second(1_000)));
    assert_eq!(clock.now(), second(1_000));
    clock.sleep(Duration::from_hours(10)).await;
    assert_eq!(clock.now(), second(1_000 + 36_000));
}

#[tokio::test(start_paused = true)]
async fn a_sleep_starts_when_it_is_created() {
    let clock = clock();
    let sleep = clock.sleep(Duration::from_secs(10));
    clock.sleep(Duration::from_secs(10)).await;
    assert!(sleep.now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn sleep_until_a_past_time_returns_at_once() {
    let clock = clock();
    clock.sleep_until(second(-5)).await;
    assert_eq!(clock.now(), BASE);
    clock.sleep_until(second(5)).await;
    assert_eq!(clock.now(), second(5));
}

#[tokio::test(start_paused = true)]
async fn sleep_accepts_zero_and_maximum_durations() {
    let clock = clock();
    assert!(clock.sleep(Duration::ZERO).now_or_never().is_some());
    assert!(clock.sleep(Duration::MAX).now_or_never().is_none());
    let last: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::MAX));
    last.sleep(Duration::from_secs(2)).await;
    assert_eq!(last.now(), Timestamp::MAX);
}

#[tokio::test(start_paused = true)]
async fn interval_ticks_are_evenly_spaced_and_missed_ticks_are_skipped() {
    let clock = clock();
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
async fn a_zero_interval_yields_to_other_tasks() {
    let clock = clock();
    let mut interval = Interval::new(clock.clone(), Duration::ZERO);
    for _ in 0..3 {
        interval.tick().await;
    }
    assert!(clock.now() > BASE);
}
