//! Tests of background tasks: panics, stop and memory.

use std::future::pending;

use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::*;

async fn yield_repeatedly() {
    for _ in 0..10 {
        yield_now().await;
    }
}

/// Waits for ever; dropping the task closes the channel, which the test observes.
async fn hold_until_dropped(_until_dropped: oneshot::Sender<()>) {
    pending::<()>().await;
}

#[tokio::test]
async fn running_tasks_are_listed_by_name() {
    let tasks = Tasks::new();
    let (end, ended) = oneshot::channel::<()>();
    tasks.spawn("first", async move { drop(ended.await) });
    tasks.spawn("second", pending());
    assert_eq!(tasks.running(), ["first", "second"]);
    end.send(()).unwrap();
    yield_repeatedly().await;
    assert_eq!(tasks.running(), ["second"]);
}

#[tokio::test]
async fn a_panic_ends_only_its_task_and_is_counted() {
    let tasks = Tasks::new();
    tasks.spawn("broken", async { panic!("a bug, on purpose") });
    tasks.spawn("sound", pending());
    yield_repeatedly().await;
    assert_eq!(tasks.running(), ["sound"]);
    assert_eq!(tasks.panic_count(), 1);
}

#[tokio::test]
async fn stop_cancels_every_task() {
    let tasks = Tasks::new();
    let (alive, dead) = oneshot::channel::<()>();
    tasks.spawn("endless", hold_until_dropped(alive));
    tasks.clone().stop().await;
    assert!(dead.await.is_err());
    assert_eq!(tasks.running(), [""; 0]);
}

#[tokio::test]
async fn no_task_starts_after_stop() {
    let tasks = Tasks::new();
    tasks.stop().await;
    let (alive, dead) = oneshot::channel::<()>();
    tasks.spawn("late", hold_until_dropped(alive));
    assert!(dead.await.is_err());
    assert_eq!(tasks.running(), [""; 0]);
}

#[tokio::test]
async fn finished_tasks_free_their_memory() {
    let tasks = Tasks::new();
    for _ in 0..1_000 {
        tasks.spawn("short", async {});
        yield_now().await;
    }
    let state = tasks.state();
    assert!(state.running.len() < 10 && state.entries.len() < 10, "{}", state.running.len());
}
