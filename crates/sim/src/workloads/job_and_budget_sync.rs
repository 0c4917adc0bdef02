//! Syncs Jobs and PodDisruptionBudgets: writes what their modules decide.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use super::cache::selector_of;
use super::controllers::{Controllers, Requeue};
use super::index::labels;
use super::pods::controller_of;
use super::{budget, job};
use karpenter_operator::watch::ObjectKey;

impl Controllers<'_> {
    pub(super) async fn sync_job(&mut self, key: &ObjectKey) -> Result<Requeue, kube::Error> {
        let Some(job) = self.cache.jobs.get(key).cloned() else { return Ok(None) };
        let pods = self.cache.pods.of_owner(job.metadata.uid.as_deref().unwrap_or_default());
        let pods: Vec<Arc<Pod>> = pods.cloned().collect();
        let Some(mut decision) = job::decide(&job, &pods, self.clock.now()) else {
            return Ok(None);
        };
        decision.delete.retain(|pod| !self.cache.is_deletion_accepted(pod));
        if job.status.as_ref() != Some(&decision.status) {
            let mut changed = (*job).clone();
            changed.status = Some(decision.status);
            self.writer.update_status(&self.informers.jobs, &changed).await?;
        }
        for pod in &decision.release {
            self.release_pod(pod).await?;
        }
        self.delete_pods(&decision.delete).await?;
        self.writer.create_pods(&self.informers.pods, decision.create).await?;
        if decision.expired {
            self.writer.delete(job.as_ref()).await?;
        }
        Ok(decision.requeue_at)
    }

    async fn release_pod(&self, pod: &Pod) -> Result<(), kube::Error> {
        let kept = pod.finalizers().iter().filter(|finalizer| *finalizer != job::FINALIZER);
        let kept: Vec<_> = kept.collect();
        let patch = json!({"metadata": {"finalizers": kept}});
        self.writer.patch(&self.informers.pods, pod, patch).await
    }

    /// Removes the tracking finalizer of a pod whose Job is gone.
    pub(super) async fn sync_uncounted_pod(
        &mut self,
        key: &ObjectKey,
    ) -> Result<Requeue, kube::Error> {
        let Some(pod) = self.cache.pods.get(key).cloned() else { return Ok(None) };
        let Some(owner) = controller_of(&pod.metadata) else { return Ok(None) };
        let job = self.cache.jobs.get(&ObjectKey::new(&key.namespace, &owner.name));
        let is_known = job.is_some_and(|job| job.metadata.uid.as_ref() == Some(&owner.uid));
        if job::is_tracked(&pod) && !is_known {
            self.release_pod(&pod).await?;
        }
        Ok(None)
    }

    pub(super) async fn sync_budget(&mut self, key: &ObjectKey) -> Result<Requeue, kube::Error> {
        let Some(budget) = self.cache.budgets.get(key).cloned() else { return Ok(None) };
        let selector = selector_of(budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()));
        let pods = self.cache.pods.in_namespace(&key.namespace);
        let pods: Vec<_> = pods.filter(|pod| selector.matches(labels(pod.as_ref()))).collect();
        let scale = |pod: &Pod| self.controller_scale(pod);
        let (status, again) = budget::status(&budget, &pods, scale, self.clock.now());
        if budget.status.as_ref() != Some(&status) {
            let mut changed = (*budget).clone();
            changed.status = Some(status);
            self.writer.update_status(&self.informers.budgets, &changed).await?;
        }
        Ok(again)
    }

    /// Returns the uid and replicas of the controller that scales the pod.
    fn controller_scale(&self, pod: &Pod) -> Option<(String, i32)> {
        let namespace = pod.namespace().unwrap_or_default();
        let owner = controller_of(&pod.metadata)?;
        let key = |name: &str| ObjectKey::new(&namespace, name);
        match owner.kind.as_str() {
            "ReplicaSet" => {
                let set = self.cache.replica_sets.get(&key(&owner.name))?;
                let above = controller_of(&set.metadata);
                match above.filter(|above| above.kind == "Deployment") {
                    Some(above) => {
                        let deployment = self.cache.deployments.get(&key(&above.name))?;
                        let replicas = deployment.spec.as_ref()?.replicas.unwrap_or(1);
                        Some((above.uid.clone(), replicas))
                    }
                    None => Some((owner.uid.clone(), set.spec.as_ref()?.replicas.unwrap_or(1))),
                }
            }
            "StatefulSet" => {
                let set = self.cache.stateful_sets.get(&key(&owner.name))?;
                Some((owner.uid.clone(), set.spec.as_ref()?.replicas.unwrap_or(1)))
            }
            _ => None,
        }
    }
}
