//! The provider `x` of tests: a cloud in memory behind the socket for providers.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use karpenter_api::condition_set::{ConditionSet, HasConditions, Subject};
use karpenter_api::validation::ProviderRules;
use karpenter_core::testing;
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::FakeCloud;
use crate::cloud::{BoxError, CloudProvider as _, ProviderLabels, RepairAction, RepairPolicy};
use crate::provider::{
    BuiltProvider, ConditionReport, ConfiguredProvider, GivenOptions, InvalidOptions,
    NodeClassKind, Provider, ProviderEnvironment, ProviderFacts,
};

/// The label domain and API group of the provider.
const GROUP: &str = "karpenter.test.sh";
const VERSION: &str = "v1alpha1";
const KIND: &str = "TestNodeClass";
const PLURAL: &str = "testnodeclasses";

/// Labels of [`testing::default_types`] that core does not define.
const WELL_KNOWN: [&str; 4] = ["size", "special", "integer", testing::RESERVATION_ID];

/// A condition of node classes besides Ready.
const DEPENDENTS: [&str; 1] = ["Resolved"];

/// The node class of the provider `x`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TestNodeClass {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Value,
    pub status: Option<TestNodeClassStatus>,
}

/// Observed state of a [`TestNodeClass`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TestNodeClassStatus {
    pub conditions: Option<Vec<Condition>>,
}

impl Resource for TestNodeClass {
    type DynamicType = ();
    type Scope = kube::core::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl HasConditions for TestNodeClass {
    fn conditions(&self) -> &[Condition] {
        let conditions = self.status.as_ref().and_then(|status| status.conditions.as_deref());
        conditions.unwrap_or_default()
    }

    fn condition_set_with(
        &mut self,
        dependents: &'static [&'static str],
        now: Timestamp,
    ) -> ConditionSet<'_> {
        let subject = Subject::from(&self.metadata);
        let conditions = self.status.get_or_insert_default().conditions.get_or_insert_default();
        ConditionSet::new(conditions, dependents, subject, now)
    }
}

/// Returns the CRD of [`TestNodeClass`].
pub fn test_node_class_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": KIND,
                "listKind": format!("{KIND}List"),
                "plural": PLURAL,
                "singular": "testnodeclass",
            },
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

/// A provider named `x` with labels and a node class of its own.
#[derive(Clone, Debug)]
pub struct XProvider {
    /// The cloud that it builds.
    pub cloud: Arc<FakeCloud>,
    /// How often the hook of the leader has run.
    pub elections: Arc<AtomicUsize>,
}

impl XProvider {
    /// Returns a provider of this cloud.
    pub fn new(cloud: &Arc<FakeCloud>) -> Self {
        Self { cloud: Arc::clone(cloud), elections: Arc::default() }
    }

    /// Returns the one repair policy of the provider, for the condition `BadNode`.
    pub fn bad_node_policy() -> RepairPolicy {
        RepairPolicy {
            condition_type: "BadNode".to_owned(),
            condition_status: "False".to_owned(),
            reason_regex: String::new(),
            toleration_duration: Duration::from_mins(30),
            termination_grace_period: Some(Duration::ZERO),
            priority: 0,
            action: RepairAction::ReplaceNode,
        }
    }
}

impl Provider for XProvider {
    fn facts(&self) -> ProviderFacts {
        let class = NodeClassKind::of::<TestNodeClass>().with_report(ConditionReport {
            controller: "operatorpkg.testnodeclass.status",
            dependents: |_| &DEPENDENTS,
        });
        ProviderFacts {
            name: "x",
            rules: ProviderRules::new(GROUP, WELL_KNOWN),
            node_classes: vec![class],
        }
    }

    fn configure(
        &self,
        _: &GivenOptions<'_>,
    ) -> Result<Box<dyn ConfiguredProvider>, InvalidOptions> {
        Ok(Box::new(self.clone()))
    }
}

impl ConfiguredProvider for XProvider {
    fn repair_policies(&self) -> Vec<RepairPolicy> {
        vec![Self::bad_node_policy()]
    }

    fn labels(&self) -> ProviderLabels {
        self.cloud.provider_labels()
    }

    fn build(
        self: Box<Self>,
        _: ProviderEnvironment,
    ) -> BoxFuture<'static, Result<BuiltProvider, BoxError>> {
        Box::pin(async move {
            let mut built = BuiltProvider::new(self.cloud);
            let elections = self.elections;
            built.work.on_elected = Some(Box::pin(async move {
                elections.fetch_add(1, Ordering::Relaxed);
            }));
            Ok(built)
        })
    }
}
