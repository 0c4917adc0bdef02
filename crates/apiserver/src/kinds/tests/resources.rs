//! Tests that the built-in resources and their list types match those of Kubernetes.

use super::*;
use crate::type_model::{ListKind, Type};

#[test]
fn built_in_resources_match_kubernetes_discovery() {
    let (_, resources) = built_in_resources();
    let lines: Vec<String> = resources
        .iter()
        .map(|found| {
            let names = |names: &[Box<str>]| names.join(",");
            format!(
                "{}/{} {} {} {} [{}] [{}] {}",
                found.group,
                found.plural,
                found.singular,
                found.kind,
                if found.namespaced { "namespaced" } else { "cluster" },
                names(&found.short_names),
                names(&found.categories),
                found.subresources.len(),
            )
        })
        .collect();
    #[rustfmt::skip]
    let expected = [
        "/pods pod Pod namespaced [po] [all] 6",
        "/nodes node Node cluster [no] [] 1",
        "/endpoints endpoints Endpoints namespaced [ep] [] 0",
        "/namespaces namespace Namespace cluster [ns] [] 2",
        "/serviceaccounts serviceaccount ServiceAccount namespaced [sa] [] 1",
        "apps/deployments deployment Deployment namespaced [deploy] [all] 2",
        "apps/daemonsets daemonset DaemonSet namespaced [ds] [all] 1",
        "batch/jobs job Job namespaced [] [all] 1",
        "policy/poddisruptionbudgets poddisruptionbudget PodDisruptionBudget namespaced [pdb] [] 1",
        "apiextensions.k8s.io/customresourcedefinitions customresourcedefinition CustomResourceDefinition cluster [crd,crds] [api-extensions] 1",
        "storage.k8s.io/csinodes csinode CSINode cluster [] [] 0",
        "resource.k8s.io/resourceslices resourceslice ResourceSlice cluster [] [] 0",
        "coordination.k8s.io/leases lease Lease namespaced [] [] 0",
        "events.k8s.io/events event Event namespaced [ev] [] 0",
    ];
    for line in expected {
        assert!(lines.iter().any(|found| found == line), "{line}\nin\n{}", lines.join("\n"));
    }
}

#[test]
fn list_fields_have_the_list_type_and_merge_key_of_kubernetes() {
    let types = crate::kinds::types();
    let field = |model: &str, name: &str| {
        let id = types.find_by_name(&format!("io.k8s.api.core.v1.{model}")).unwrap();
        let Type::Object(object) = types.get(id) else { panic!("{model} is an object") };
        let field = object.fields[name].clone();
        let kind = match types.get(field.type_id) {
            Type::List { kind, .. } => kind.clone(),
            other => panic!("{model}.{name} is {other:?}"),
        };
        (kind, field.strategy.merge_key, field.strategy.retain_keys)
    };
    let keys = |keys: &[&str]| ListKind::Map(keys.iter().map(|&key| key.into()).collect());
    #[rustfmt::skip]
    let cases = [
        ("PodSpec", "containers",     keys(&["name"]), Some("name"), false),
        ("PodSpec", "volumes",        keys(&["name"]), Some("name"), true),
        ("PodSpec", "tolerations",    ListKind::Atomic, None, false),
        ("Container", "args",         ListKind::Atomic, None, false),
        ("Container", "ports",        keys(&["containerPort", "protocol"]), Some("containerPort"), false),
        ("NodeSpec", "podCIDRs",      ListKind::Set, Some(""), false),
        ("NodeStatus", "conditions",  keys(&["type"]), Some("type"), false),
    ];
    for (model, name, kind, merge_key, retain_keys) in cases {
        let expected = (kind, merge_key.map(Into::into), retain_keys);
        assert_eq!(field(model, name), expected, "{model}.{name}");
    }
}
