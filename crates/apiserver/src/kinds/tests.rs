//! Tests of built-in kinds: the results for objects equal those of the real API server.

mod admission;
mod recorded;
mod resources;

use std::pin::Pin;
use std::time::Duration;

use serde_json::{Value, json};

use super::{
    AdmissionContext, KindDefinition, ObjectReader, Resource, ResourceStrategy, built_in_resources,
};
use crate::environment::Environment;
use crate::status::{StatusDetails, StatusError};
use crate::type_model::{self, Types};

/// An environment with a fixed time and a fixed random number.
#[derive(Debug)]
struct FixedEnvironment;

impl Environment for FixedEnvironment {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn sleep(&self, _duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    fn random(&self) -> u128 {
        7
    }
}

/// Stored objects by plural.
#[derive(Debug, Default)]
struct StoredObjects(Vec<(&'static str, Value)>);

impl ObjectReader for StoredObjects {
    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let mut all = self.list(group, plural, namespace).into_iter();
        all.find(|object| object["metadata"]["name"] == name)
    }

    fn labels(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Vec<(String, String)>> {
        let object = self.get(group, plural, namespace, name)?;
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let owned = |(name, value): (&String, &Value)| {
            (name.clone(), value.as_str().unwrap_or_default().to_owned())
        };
        Some(labels.map(owned).collect())
    }

    fn list(&self, _group: &str, plural: &str, namespace: &str) -> Vec<Value> {
        let objects = self.0.iter().filter(|(found, _)| *found == plural);
        let within =
            |object: &&Value| namespace.is_empty() || object["metadata"]["namespace"] == namespace;
        objects.map(|(_, object)| object).filter(within).cloned().collect()
    }
}

/// Returns the objects that every cluster has.
fn default_objects() -> StoredObjects {
    let account = json!({"metadata": {"name": "default", "namespace": "default"}});
    let mut world = StoredObjects(vec![("serviceaccounts", account)]);
    for (name, value) in
        [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)]
    {
        let class = json!({
            "metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority",
        });
        world.0.push(("priorityclasses", class));
    }
    world
}

/// The parts of the API server that call the strategies.
struct TestApi {
    types: Types,
    resources: Vec<Resource>,
    objects: StoredObjects,
}

impl TestApi {
    fn new(world: StoredObjects) -> Self {
        let (types, resources) = built_in_resources();
        Self { types, resources, objects: world }
    }

    #[track_caller]
    fn resource(&self, group: &str, plural: &str) -> (&Resource, &'static dyn ResourceStrategy) {
        let mut all = self.resources.iter();
        let found = all.find(|found| &*found.group == group && &*found.plural == plural);
        let found = found.unwrap_or_else(|| panic!("{plural} of {group:?} are served"));
        match found.definition {
            KindDefinition::BuiltIn(strategy) => (found, strategy),
            KindDefinition::Custom(_) => panic!("{plural} are built in"),
        }
    }

    fn admission_context(&self) -> AdmissionContext<'_> {
        AdmissionContext {
            objects: &self.objects,
            environment: &FixedEnvironment,
            service_accounts: true,
        }
    }

    fn create(&self, group: &str, plural: &str, mut object: Value) -> Result<Value, StatusError> {
        let (resource, strategy) = self.resource(group, plural);
        type_model::decode(&self.types, resource.type_id, &mut object)?;
        strategy.set_defaults(&mut object);
        strategy.admit_create(&mut object, self.admission_context())?;
        object["metadata"]["uid"] = "UID".into();
        object["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
        strategy.prepare_for_create(&mut object);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut errors: Vec<_> = strategy
            .name_problems(&name)
            .into_iter()
            .map(|problem| {
                crate::admission::FieldError::invalid("metadata.name", name.as_str(), problem)
            })
            .collect();
        errors.extend(strategy.validate_create(&object));
        self.validate_and_encode(resource, object, &errors)
    }

    fn update(
        &self,
        group: &str,
        plural: &str,
        mut new: Value,
        old: &Value,
        status: bool,
    ) -> Result<Value, StatusError> {
        let (resource, strategy) = self.resource(group, plural);
        type_model::decode(&self.types, resource.type_id, &mut new)?;
        strategy.set_defaults(&mut new);
        let errors = if status {
            strategy.admit_status_update(&mut new, old, self.admission_context());
            strategy.prepare_for_status_update(&mut new, old);
            strategy.validate_status_update(&new, old)
        } else {
            strategy.admit_update(&mut new, old, self.admission_context())?;
            strategy.prepare_for_update(&mut new, old);
            strategy.validate_update(&new, old)
        };
        self.validate_and_encode(resource, new, &errors)
    }

    fn validate_and_encode(
        &self,
        resource: &Resource,
        mut object: Value,
        errors: &[crate::admission::FieldError],
    ) -> Result<Value, StatusError> {
        if !errors.is_empty() {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let about = StatusDetails { group: &resource.group, kind: &resource.kind, name };
            return Err(StatusError::invalid(about, errors));
        }
        type_model::encode(&self.types, resource.type_id, &mut object);
        Ok(object)
    }
}
