//! Runs the workload controllers: takes due objects from the queue, decides, writes.

use std::convert::Infallible;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use karpenter_operator::clock::Clock;
use kube::api::PostParams;
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::cache::{Informers, ObjectCache, selector_of};
use super::pods::{controller_of, from_template, is_active, is_finished, is_same_template};
use super::queue::{Item, Queue};
use super::write::{Writer, ignore_not_found_or_conflict};
use super::{daemon_set, deployment, replica_set, stateful_set};
use karpenter_operator::watch::{Notifier, ObjectKey};

/// When to sync the object again although nothing changes, if at all.
pub(super) type Requeue = Option<Timestamp>;

pub(super) struct Controllers<'a> {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) informers: &'a Informers,
    pub(super) cache: ObjectCache,
    pub(super) queue: Queue,
    pub(super) writer: Writer,
}

impl<'a> Controllers<'a> {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>, informers: &'a Informers) -> Self {
        let writer = Writer::new(client);
        Self { clock, informers, cache: ObjectCache::default(), queue: Queue::default(), writer }
    }

    pub(super) async fn work(mut self, wake: &Notifier) -> Infallible {
        while !self.informers.is_synced() {
            wake.notified().await;
        }
        loop {
            let now = self.clock.now();
            self.cache.apply_changes(self.informers, &mut self.queue, now);
            if let Some(item) = self.queue.take(now) {
                self.sync_item(item).await;
                continue;
            }
            let Some(next) = self.queue.next() else {
                wake.notified().await;
                continue;
            };
            tokio::select! {
                // A change is handled even if the time has come too.
                biased;
                () = wake.notified() => {}
                () = self.clock.sleep_until(next) => {}
            }
        }
    }

    async fn sync_item(&mut self, item: Item) {
        // Boxed, since the largest of them would make all of them large.
        let done = match &item {
            Item::Deployment(key) => Box::pin(self.sync_deployment(key)).await,
            Item::ReplicaSet(key) => Box::pin(self.sync_replica_set(key)).await,
            Item::DaemonSet(key) => Box::pin(self.sync_daemon_set(key)).await,
            Item::Node(name) => Box::pin(self.sync_node(name)).await,
            Item::Eviction(key) => Box::pin(self.sync_eviction(key)).await,
            Item::OrphanedPod(key) => Box::pin(self.sync_orphaned_pod(key)).await,
            Item::Job(key) => Box::pin(self.sync_job(key)).await,
            Item::UncountedPod(key) => Box::pin(self.sync_uncounted_pod(key)).await,
            Item::Budget(key) => Box::pin(self.sync_budget(key)).await,
            Item::StatefulSet(key) => Box::pin(self.sync_stateful_set(key)).await,
        };
        match done {
            Ok(again) => {
                self.queue.reset_backoff(&item);
                if let Some(time) = again {
                    self.queue.at(item, time);
                }
            }
            Err(_refused) => self.queue.requeue_with_backoff(item, self.clock.now()),
        }
    }

    async fn sync_deployment(&mut self, key: &ObjectKey) -> Result<Requeue, kube::Error> {
        let Some(deployment) = self.cache.deployments.get(key).cloned() else { return Ok(None) };
        let Some(spec) = &deployment.spec else { return Ok(None) };
        let informers = self.informers;
        let selector = selector_of(Some(&spec.selector));
        let ownership = self.cache.replica_sets.ownership_of(deployment.as_ref(), &selector);
        if self
            .writer
            .apply_ownership(&informers.replica_sets, deployment.as_ref(), &ownership)
            .await?
        {
            self.queue.add(Item::Deployment(key.clone()), self.clock.now());
            return Ok(None);
        }
        let old = ownership.owned.iter().filter(|set| {
            let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
            template.is_none_or(|template| !is_same_template(template, &spec.template))
        });
        let old_uids: Vec<_> = old.filter_map(|set| set.uid()).collect();
        let mut old_pods = old_uids.iter().flat_map(|uid| self.cache.pods.of_owner(uid));
        let old_pods_left = old_pods.any(|pod| !is_finished(pod));
        let now = self.clock.now();
        let Some(decision) = deployment::decide(&deployment, &ownership.owned, old_pods_left, now)
        else {
            return Ok(None);
        };
        let mut status = decision.status;
        if let Some(set) = &decision.create {
            let created = self.writer.create(&informers.replica_sets, set).await;
            match created {
                Err(kube::Error::Api(refusal)) if refusal.code == 409 => {
                    // Another template has the same hash.
                    status = deployment.status.clone().unwrap_or_default();
                    status.collision_count = Some(status.collision_count.unwrap_or_default() + 1);
                }
                created => created?,
            }
        }
        for set in &decision.update {
            self.writer.update(&informers.replica_sets, set).await?;
        }
        for set in ownership.owned.iter().filter(|set| decision.delete.contains(&set.name_any())) {
            self.writer.delete(set.as_ref()).await?;
        }
        if deployment.status.as_ref() != Some(&status) {
            let mut changed = (*deployment).clone();
            changed.status = Some(status);
            self.writer.update_status(&informers.deployments, &changed).await?;
        }
        if let Some(revision) = decision.revision {
            let annotation = json!({deployment::REVISION: revision});
            let patch = json!({"metadata": {"annotations": annotation}});
            self.writer.patch(&informers.deployments, deployment.as_ref(), patch).await?;
        }
        Ok(decision.requeue_at)
    }

    async fn sync_replica_set(&mut self, key: &ObjectKey) -> Result<Requeue, kube::Error> {
        let Some(set) = self.cache.replica_sets.get(key).cloned() else { return Ok(None) };
        let Some(spec) = &set.spec else { return Ok(None) };
        let selector = selector_of(Some(&spec.selector));
        let mut ownership = self.cache.pods.ownership_of(set.as_ref(), &selector);
        ownership.adopt.retain(|pod| is_active(pod));
        if self.writer.apply_ownership(&self.informers.pods, set.as_ref(), &ownership).await? {
            self.queue.add(Item::ReplicaSet(key.clone()), self.clock.now());
            return Ok(None);
        }
        let (ending, staying): (Vec<_>, Vec<_>) =
            ownership.owned.into_iter().partition(|pod| self.cache.is_deletion_accepted(pod));
        let mut active: Vec<_> = staying.into_iter().filter(|pod| !is_finished(pod)).collect();
        let now = self.clock.now();
        let is_too_many =
            active.len() > usize::try_from(replica_set::spec_replicas(&set)).unwrap_or_default();
        let related = if is_too_many { self.related(&set) } else { Vec::new() };
        let plan = replica_set::plan(&set, &active, &related, now);
        let wrote = plan.create > 0 || !plan.delete.is_empty();
        let done = self.apply_plan(&set, &plan).await;
        if done.is_ok() {
            active.retain(|pod| !self.cache.is_deletion_accepted(pod));
        }
        let failure = done.as_ref().err().map(ToString::to_string);
        let terminating = ending.iter().filter(|pod| !is_finished(pod)).count();
        let status = replica_set::status(&set, &active, terminating, failure.as_deref(), now);
        // After writes the pods are counted in the next sync, which follows from them.
        let is_due = !wrote || failure.is_some();
        if is_due && set.status.as_ref() != Some(&status) {
            let mut changed = (*set).clone();
            changed.status = Some(status);
            self.writer.update_status(&self.informers.replica_sets, &changed).await?;
        }
        done?;
        if wrote {
            self.queue.add(Item::ReplicaSet(key.clone()), self.clock.now());
        }
        Ok(replica_set::next_status_change(&set, &active, now))
    }

    async fn apply_plan(
        &mut self,
        set: &k8s_openapi::api::apps::v1::ReplicaSet,
        plan: &replica_set::Plan,
    ) -> Result<(), kube::Error> {
        let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
        let pods = vec![from_template(set, &template); plan.create];
        self.writer.create_pods(&self.informers.pods, pods).await?;
        self.delete_pods(&plan.delete).await
    }

    pub(super) async fn delete_pods(&mut self, pods: &[Arc<Pod>]) -> Result<(), kube::Error> {
        let (deleted, outcome) = self.writer.delete_pods(&self.informers.pods, pods).await;
        for pod in deleted {
            self.cache.record_accepted_deletion(&pod);
        }
        outcome
    }

    /// The active pods of all ReplicaSets of the same Deployment.
    fn related(&self, set: &k8s_openapi::api::apps::v1::ReplicaSet) -> Vec<Arc<Pod>> {
        let uids: Vec<String> = match controller_of(&set.metadata) {
            None => set.uid().into_iter().collect(),
            Some(owner) => {
                self.cache.replica_sets.of_owner(&owner.uid).filter_map(|set| set.uid()).collect()
            }
        };
        let pods = uids.iter().flat_map(|uid| self.cache.pods.of_owner(uid));
        pods.filter(|pod| is_active(pod)).cloned().collect()
    }

    async fn sync_daemon_set(&mut self, key: &ObjectKey) -> Result<Requeue, kube::Error> {
        let Some(set) = self.cache.daemon_sets.get(key).cloned() else { return Ok(None) };
        let Some(spec) = &set.spec else { return Ok(None) };
        let selector = selector_of(Some(&spec.selector));
        let ownership = self.cache.pods.ownership_of(set.as_ref(), &selector);
        if self.writer.apply_ownership(&self.informers.pods, set.as_ref(), &ownership).await? {
            self.queue.add(Item::DaemonSet(key.clone()), self.clock.now());
            return Ok(None);
        }
        let nodes: Vec<_> = self.cache.nodes.all().cloned().collect();
        let now = self.clock.now();
        let Some(mut decision) = daemon_set::decide(&set, &nodes, &ownership.owned, now) else {
            return Ok(None);
        };
        decision.delete.retain(|pod| !self.cache.is_deletion_accepted(pod));
        self.delete_pods(&decision.delete).await?;
        self.writer.create_pods(&self.informers.pods, decision.create).await?;
        if set.status.as_ref() != Some(&decision.status) {
            let mut changed = (*set).clone();
            changed.status = Some(decision.status);
            self.writer.update_status(&self.informers.daemon_sets, &changed).await?;
        }
        Ok(decision.requeue_at)
    }

    async fn sync_stateful_set(&mut self, key: &ObjectKey) -> Result<Requeue, kube::Error> {
        let Some(set) = self.cache.stateful_sets.get(key).cloned() else { return Ok(None) };
        let Some(spec) = &set.spec else { return Ok(None) };
        let informers = self.informers;
        let selector = selector_of(Some(&spec.selector));
        let ownership = self.cache.pods.ownership_of(set.as_ref(), &selector);
        if self.writer.apply_ownership(&informers.pods, set.as_ref(), &ownership).await? {
            self.queue.add(Item::StatefulSet(key.clone()), self.clock.now());
            return Ok(None);
        }
        let revisions =
            self.cache.revisions.of_owner(set.metadata.uid.as_deref().unwrap_or_default());
        let revisions: Vec<_> = revisions.cloned().collect();
        let now = self.clock.now();
        let Some(mut decision) = stateful_set::decide(&set, &ownership.owned, &revisions, now)
        else {
            return Ok(None);
        };
        if let Some(revision) = &decision.revision {
            self.writer.create(&informers.revisions, revision).await?;
        }
        for ownership in &decision.claims {
            ignore_not_found_or_conflict(
                self.writer
                    .api(ownership)
                    .create(&PostParams::default(), ownership)
                    .await
                    .map(drop),
            )?;
        }
        decision.delete.retain(|pod| !self.cache.is_deletion_accepted(pod));
        self.writer.create_pods(&informers.pods, decision.create).await?;
        self.delete_pods(&decision.delete).await?;
        if set.status.as_ref() != Some(&decision.status) {
            let mut changed = (*set).clone();
            changed.status = Some(decision.status);
            self.writer.update_status(&informers.stateful_sets, &changed).await?;
        }
        for revision in &decision.unused_revisions {
            self.writer.delete(revision.as_ref()).await?;
        }
        Ok(decision.requeue_at)
    }
}
