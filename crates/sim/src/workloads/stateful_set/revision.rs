//! Templates of the past.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{
    ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::json;

use super::super::daemon_set::REVISION_HASH;
use super::super::pods::{owner_reference, template_hash};

pub(super) struct Revisions<'a> {
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    known: &'a [Arc<ControllerRevision>],
    hash: String,
}

impl<'a> Revisions<'a> {
    pub(super) fn new(
        set: &'a StatefulSet,
        spec: &'a StatefulSetSpec,
        known: &'a [Arc<ControllerRevision>],
    ) -> Self {
        Self { set, spec, known, hash: template_hash(&spec.template, None) }
    }

    /// The name and template of the present.
    pub(super) fn update(&self) -> (String, PodTemplateSpec) {
        let set = self.set.metadata.name.as_deref().unwrap_or_default();
        (format!("{set}-{}", self.hash), self.spec.template.clone())
    }

    /// The name and template that all pods had when the last rollout was over.
    pub(super) fn current(&self) -> (String, PodTemplateSpec) {
        let status = self.set.status.as_ref();
        let name = status.and_then(|status| status.current_revision.clone());
        let found = name.and_then(|name| {
            let revision =
                self.known.iter().find(|known| known.metadata.name.as_ref() == Some(&name))?;
            let template = &revision.data.as_ref()?.0["spec"]["template"];
            Some((name, serde_json::from_value(template.clone()).ok()?))
        });
        found.unwrap_or_else(|| self.update())
    }

    /// The revision of the present, if it has to be stored.
    pub(super) fn missing(&self) -> Option<ControllerRevision> {
        let (name, template) = self.update();
        if self.known.iter().any(|known| known.metadata.name.as_ref() == Some(&name)) {
            return None;
        }
        let last = self.known.iter().map(|known| known.revision).max().unwrap_or_default();
        let mut labels = self.spec.selector.match_labels.clone().unwrap_or_default();
        labels.insert(REVISION_HASH.to_owned(), self.hash.clone());
        Some(ControllerRevision {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: self.set.metadata.namespace.clone(),
                labels: Some(labels),
                owner_references: Some(vec![owner_reference(self.set)]),
                ..ObjectMeta::default()
            },
            data: Some(RawExtension(json!({"spec": {"template": template}}))),
            revision: last + 1,
        })
    }

    /// The oldest beyond the limit that no pod has.
    pub(super) fn unused(
        &self,
        status: &StatefulSetStatus,
        used: &[&str],
    ) -> Vec<Arc<ControllerRevision>> {
        let needed = [&status.current_revision, &status.update_revision];
        let mut old: Vec<_> = self
            .known
            .iter()
            .filter(|known| !needed.contains(&&known.metadata.name))
            .filter(|known| !used.contains(&known.metadata.name.as_deref().unwrap_or_default()))
            .cloned()
            .collect();
        old.sort_by_key(|known| (known.revision, known.metadata.name.clone()));
        let limit = self.spec.revision_history_limit.unwrap_or(10);
        let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        old.truncate(excess);
        old
    }
}
