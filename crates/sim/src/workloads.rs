//! The controllers of kube-controller-manager that a world needs: workloads, disruption budgets,
//! nodes that fall silent, and pods whose nodes are gone.
//!
//! ```text
//! watches ─▶ ObjectCache ─▶ Queue ─▶ one object at a time: decide (pure), then write
//!                 ▲                                           │
//!                 └──────────── responses of the API ─────────┘
//! ```
//!
//! What to do is decided in a file per kind, without a clock or an API: `deployment`,
//! `replica_set`, `stateful_set`, `daemon_set`, `job`, `budget`, `node_lifecycle`,
//! `eviction`. Responses of writes are applied at once, so no sync acts on a state from before
//! its own last write. Owner references and namespaces are the API's business here. Left out:
//! events, CronJobs, ReplicationControllers, autoscaling, and what each file names.

mod budget;
mod cache;
mod controllers;
mod daemon_set;
mod deployment;
mod eviction;
mod index;
mod int_or_percent;
mod job;
mod job_and_budget_sync;
mod node_lifecycle;
mod nodes;
mod pods;
mod queue;
mod replica_set;
mod stateful_set;
mod write;

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::future;
use karpenter_operator::clock::Clock;
use karpenter_operator::rng::SeededRng;
use kube::Client;

use self::cache::Informers;
use self::controllers::Controllers;
use karpenter_operator::watch::Notifier;

/// The controllers, for ever. Names come from the API and nothing is jittered, so they do not
/// draw on chance.
pub async fn run(client: Client, clock: Arc<dyn Clock>, _: SeededRng) -> Infallible {
    let wake = Notifier::default();
    let watched = Informers::new(&client, &clock, &wake);
    // The watches are polled first, so that a decision sees what there is to see.
    let feed = Box::pin(watched.feed());
    let work = Box::pin(Controllers::new(client, clock, &watched).work(&wake));
    future::join(feed, work).await.1
}
