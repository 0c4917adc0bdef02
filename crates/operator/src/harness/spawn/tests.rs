use std::future::pending;

use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::*;

async fn settle() {
    for _ in 0..10 {
        yield_now().await;
    }
}

/// Tells by closing its channel that the task holding it is gone.
async fn hold(_until_dropped: oneshot::Sender<()>) {
    pending::<()>().await;
}

#[tokio::test]
async fn tasks_are_known_by_name_until_they_end() {
    let tasks = Tasks::new();
    let (end, ended) = oneshot::channel::<()>();
    tasks.spawn("first", async move { drop(ended.await) });
    tasks.spawn("second", pending());
    assert_eq!(tasks.running(), ["first", "second"]);
    end.send(()).unwrap();
    settle().await;
    assert_eq!(tasks.running(), ["second"]);
}

#[tokio::test]
async fn a_panic_ends_one_task_and_is_counted() {
    let tasks = Tasks::new();
    tasks.spawn("broken", async { panic!("a bug, on purpose") });
    tasks.spawn("sound", pending());
    settle().await;
    assert_eq!(tasks.running(), ["sound"]);
    assert_eq!(tasks.panicked(), 1);
}

#[tokio::test]
async fn stopping_ends_every_task() {
    let tasks = Tasks::new();
    let (alive, dead) = oneshot::channel::<()>();
    tasks.spawn("endless", hold(alive));
    tasks.clone().stop().await;
    assert!(dead.await.is_err());
    assert_eq!(tasks.running(), [""; 0]);
}

#[tokio::test]
async fn nothing_starts_after_the_stop() {
    let tasks = Tasks::new();
    tasks.stop().await;
    let (alive, dead) = oneshot::channel::<()>();
    tasks.spawn("late", hold(alive));
    assert!(dead.await.is_err());
    assert_eq!(tasks.running(), [""; 0]);
}

#[tokio::test]
async fn what_has_ended_takes_no_memory() {
    let tasks = Tasks::new();
    for _ in 0..1_000 {
        tasks.spawn("short", async {});
        yield_now().await;
    }
    let state = tasks.state();
    assert!(state.running.len() < 10 && state.names.len() < 10, "{}", state.running.len());
}
