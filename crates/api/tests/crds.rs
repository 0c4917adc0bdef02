//! The rendered CRDs: names, versions and the rules that depend on the provider.
//!
//! What the schemas admit is shown by the tables of `scenarios/admission`, run on the embedded API
//! and on a real API server.

use karpenter_api::crds::{CrdSet, crds};
use serde_json::Value;

fn summary(crd: &Value) -> String {
    let spec = &crd["spec"];
    let names = &spec["names"];
    let version = &spec["versions"][0];
    let list = |value: &Value| {
        let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.collect::<Vec<_>>().join(",")
    };
    let columns = version["additionalPrinterColumns"].as_array().into_iter().flatten();
    let columns =
        columns.filter_map(|column| column["name"].as_str()).collect::<Vec<_>>().join(" ");
    let subresources = version["subresources"].as_object().into_iter().flatten();
    let subresources = subresources.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",");
    format!(
        "{} {} {} {} short={} categories={} scope={} subresources={subresources} columns={columns}",
        crd["metadata"]["name"].as_str().unwrap_or_default(),
        version["name"].as_str().unwrap_or_default(),
        names["kind"].as_str().unwrap_or_default(),
        names["listKind"].as_str().unwrap_or_default(),
        list(&names["shortNames"]),
        list(&names["categories"]),
        spec["scope"].as_str().unwrap_or_default(),
    )
}

#[test]
fn each_provider_ships_five_kinds() {
    let of = |set| crds(set).iter().map(summary).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(of(CrdSet::Aws), @r"
    capacitybuffers.autoscaling.x-k8s.io v1beta1 CapacityBuffer CapacityBufferList short=cb categories=autoscaling scope=Namespaced subresources=status columns=Strategy PodTemplate Replicas ConditionsType ConditionsStatus ConditionsReason Age
    ec2nodeclasses.karpenter.k8s.aws v1 EC2NodeClass EC2NodeClassList short=ec2nc,ec2ncs categories=karpenter scope=Cluster subresources=status columns=Ready Age Role
    nodeclaims.karpenter.sh v1 NodeClaim NodeClaimList short= categories=karpenter scope=Cluster subresources=status columns=Type Capacity Zone Node Ready Age ImageID ID NodePool NodeClass Drifted
    nodeoverlays.karpenter.sh v1alpha1 NodeOverlay NodeOverlayList short=overlays categories=karpenter scope=Cluster subresources=status columns=Ready Age Weight
    nodepools.karpenter.sh v1 NodePool NodePoolList short= categories=karpenter scope=Cluster subresources=scale,status columns=NodeClass Nodes Ready Age Weight CPU Memory
    ");
    insta::assert_snapshot!(of(CrdSet::Kwok), @r"
    capacitybuffers.autoscaling.x-k8s.io v1beta1 CapacityBuffer CapacityBufferList short=cb categories=autoscaling scope=Namespaced subresources=status columns=Strategy PodTemplate Replicas ConditionsType ConditionsStatus ConditionsReason Age
    kwoknodeclasses.karpenter.kwok.sh v1alpha1 KWOKNodeClass KWOKNodeClassList short=kwoknc,kwokncs categories=karpenter scope=Cluster subresources=status columns=
    nodeclaims.karpenter.sh v1 NodeClaim NodeClaimList short= categories=karpenter scope=Cluster subresources=status columns=Type Capacity Zone Node Ready Age ImageID ID NodePool NodeClass Drifted
    nodeoverlays.karpenter.sh v1alpha1 NodeOverlay NodeOverlayList short=overlays categories=karpenter scope=Cluster subresources=status columns=Ready Age Weight
    nodepools.karpenter.sh v1 NodePool NodePoolList short= categories=karpenter scope=Cluster subresources=scale,status columns=NodeClass Nodes Ready Age Weight CPU Memory
    ");
}

/// Name, type, path and priority of every printer column, as `kubectl get -o wide` uses them.
#[test]
fn printer_columns_match_upstream() {
    let mut kinds = crds(CrdSet::Aws);
    kinds.extend(
        crds(CrdSet::Kwok)
            .into_iter()
            .filter(|crd| crd["metadata"]["name"] == "kwoknodeclasses.karpenter.kwok.sh"),
    );
    let mut lines = Vec::new();
    for crd in &kinds {
        let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array();
        for column in columns.into_iter().flatten() {
            let text = |key: &str| column[key].as_str().unwrap_or_default().to_owned();
            let priority = column["priority"].as_i64().unwrap_or_default();
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default();
            lines.push(format!(
                "{kind} {} {} {} {priority}",
                text("name"),
                text("type"),
                text("jsonPath")
            ));
        }
    }
    let expected = r#"
CapacityBuffer Strategy string .spec.provisioningStrategy 0
CapacityBuffer PodTemplate string .status.podTemplateRef.name 0
CapacityBuffer Replicas integer .status.replicas 0
CapacityBuffer ConditionsType string .status.conditions[*].type 0
CapacityBuffer ConditionsStatus string .status.conditions[*].status 0
CapacityBuffer ConditionsReason string .status.conditions[*].reason 0
CapacityBuffer Age date .metadata.creationTimestamp 0
EC2NodeClass Ready string .status.conditions[?(@.type=="Ready")].status 0
EC2NodeClass Age date .metadata.creationTimestamp 0
EC2NodeClass Role string .spec.role 1
NodeClaim Type string .metadata.labels.node\.kubernetes\.io/instance-type 0
NodeClaim Capacity string .metadata.labels.karpenter\.sh/capacity-type 0
NodeClaim Zone string .metadata.labels.topology\.kubernetes\.io/zone 0
NodeClaim Node string .status.nodeName 0
NodeClaim Ready string .status.conditions[?(@.type=="Ready")].status 0
NodeClaim Age date .metadata.creationTimestamp 0
NodeClaim ImageID string .status.imageID 1
NodeClaim ID string .status.providerID 1
NodeClaim NodePool string .metadata.labels.karpenter\.sh/nodepool 1
NodeClaim NodeClass string .spec.nodeClassRef.name 1
NodeClaim Drifted string .status.conditions[?(@.type=="Drifted")].status 1
NodeOverlay Ready string .status.conditions[?(@.type=="Ready")].status 0
NodeOverlay Age date .metadata.creationTimestamp 0
NodeOverlay Weight integer .spec.weight 1
NodePool NodeClass string .spec.template.spec.nodeClassRef.name 0
NodePool Nodes string .status.nodes 0
NodePool Ready string .status.conditions[?(@.type=="Ready")].status 0
NodePool Age date .metadata.creationTimestamp 0
NodePool Weight integer .spec.weight 1
NodePool CPU string .status.resources.cpu 1
NodePool Memory string .status.resources.memory 1
"#;
    assert_eq!(lines.join("\n"), expected.trim());
}

#[test]
fn every_node_of_a_schema_is_described_and_none_is_nullable() {
    fn walk(node: &Value, path: &str, bare: &mut Vec<String>) {
        assert!(node.get("nullable").is_none(), "{path} is nullable");
        for (name, property) in node["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if property.get("description").is_none() && path != ".metadata" {
                bare.push(path.clone());
            }
            walk(property, &path, bare);
            walk(&property["items"], &format!("{path}[]"), bare);
        }
    }
    for set in [CrdSet::Aws, CrdSet::Kwok] {
        for crd in crds(set) {
            let mut bare = Vec::new();
            walk(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "", &mut bare);
            assert_eq!(bare, Vec::<String>::new(), "{}", crd["metadata"]["name"]);
        }
    }
}

#[test]
fn each_kind_has_one_version_served_and_stored() {
    for crd in crds(CrdSet::Aws).into_iter().chain(crds(CrdSet::Kwok)) {
        let versions = crd["spec"]["versions"].as_array().expect("versions");
        assert_eq!(versions.len(), 1);
        assert_eq!((&versions[0]["served"], &versions[0]["storage"]), (&true.into(), &true.into()));
        assert!(crd["spec"].get("conversion").is_none(), "no webhook");
    }
}
