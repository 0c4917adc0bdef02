//! The objects of a cluster, from manifests or from the cluster itself, with what could not be read
//! of them.

use std::collections::{BTreeMap, HashSet};

use k8s_openapi::api::batch::v1::Job;
use karpenter_cluster::ingest::Objects;
use serde_json::Value;

use super::decode::{self, Decoded, Mistake};
use super::report::Remark;
use crate::manifest::{FieldPath, Manifests};

/// Typed objects. Jobs only matter to expansion.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) objects: Objects,
    pub(crate) jobs: Vec<Job>,
    /// Kinds, namespaces and names that there are.
    pub(super) seen: HashSet<(&'static str, String, String)>,
    /// Objects that were left out.
    pub(crate) remarks: Vec<Remark>,
    /// Whether one of them cannot be read at all, and not only stands there twice.
    pub(crate) has_mistakes: bool,
    /// How many objects there are of kinds that nobody knows.
    pub(crate) unknown: BTreeMap<String, usize>,
    /// How many objects were looked at.
    count: usize,
}

impl Gathered {
    /// Everything in manifests.
    pub(crate) fn from_manifests(mut manifests: Manifests) -> Self {
        let mut gathered = Self::default();
        for object in std::mem::take(&mut manifests.objects) {
            let name = name(&object.value);
            if let Some(remark) = gathered.add(object.value) {
                let field = remark.field.as_deref().unwrap_or_default();
                let place = manifests.place(&object.origin, &FieldPath::of(field));
                let place = Some(place.to_string());
                gathered.remarks.push(Remark { object: name, place, ..remark });
            }
        }
        gathered
    }

    /// Adds an object. What is wrong with it comes back, still without a name and a place.
    pub(crate) fn add(&mut self, object: Value) -> Option<Remark> {
        let kind = format!("{} {}", text(&object, "/apiVersion"), text(&object, "/kind"));
        self.count += 1;
        let remark = |field: String, problem: String, fix: &str| Remark {
            object: String::new(),
            place: None,
            field: Some(field).filter(|field| !field.is_empty()),
            problem,
            fix: Some(fix.to_owned()),
            left_out: true,
        };
        match decode::add(object, self.count, self) {
            Ok(Decoded::Taken | Decoded::Irrelevant) => None,
            Ok(Decoded::Unknown) => {
                *self.unknown.entry(kind).or_default() += 1;
                None
            }
            Ok(Decoded::Twice) => {
                let problem = "is given twice; the first one counts".to_owned();
                Some(remark(String::new(), problem, "remove one of the two"))
            }
            Err(Mistake { field, what, fix }) => {
                self.has_mistakes = true;
                Some(remark(field, what, fix))
            }
        }
    }

    /// Whether there was nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// `Kind namespace/name`.
pub(crate) fn name(object: &Value) -> String {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    let name = if name.is_empty() { "?" } else { name };
    match text(object, "/metadata/namespace") {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
