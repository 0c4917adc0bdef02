//! The controllers of kube-controller-manager that a world needs: workloads, disruption budgets,
//! nodes that fall silent, and pods whose nodes are gone.
//!
//! ```text
//! watches ─▶ Known ─▶ Queue ─▶ one object at a time: decide (pure), then write
//!              ▲                                        │
//!              └──────── what the API answers ──────────┘
//! ```
//!
//! What to do is decided in a file per kind, without a clock or an API: `deployment`,
//! `replica_set`, `stateful_set`, `daemon_set`, `job`, `budget`, `node_lifecycle`,
//! `eviction`. Answers of writes are taken in at once, so no look acts on a state from before
//! its own last write. Owner references and namespaces are the API's business here. Left out:
//! events, CronJobs, ReplicationControllers, autoscaling, and what each file names.

mod budget;
mod counts;
mod daemon_set;
mod deployment;
mod eviction;
mod index;
mod job;
mod known;
mod node_lifecycle;
mod nodes;
mod numbers;
mod pods;
mod queue;
mod replica_set;
mod stateful_set;
mod sync;
mod write;

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::future;
use karpenter_operator::chance::Chance;
use karpenter_operator::clock::Clock;
use kube::Client;

use self::known::Watched;
use self::sync::Controllers;
use karpenter_operator::watch::Wake;

/// The controllers, for ever. Names come from the API and nothing is jittered, so they do not
/// draw on chance.
pub async fn run(client: Client, clock: Arc<dyn Clock>, _: Chance) -> Infallible {
    let wake = Wake::default();
    let watched = Watched::new(&client, &clock, &wake);
    // The watches are polled first, so that a decision sees what there is to see.
    let feed = Box::pin(watched.feed());
    let work = Box::pin(Controllers::new(client, clock, &watched).work(&wake));
    future::join(feed, work).await.1
}
