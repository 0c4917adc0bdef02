//! Tests that a real cluster takes the product's output: CRDs, their columns, converted manifests.

use anyhow::{Context as _, Result};
use karpenter_e2e::product::{run_karpenter, workspace};
use karpenter_e2e::{ControlPlane, Parts, SharedControlPlane};

static CONTROL_PLANE: SharedControlPlane = SharedControlPlane::new(Parts::API);

/// Returns the control plane with the AWS CRDs, applied as in the README.
async fn control_plane_with_crds() -> Result<&'static ControlPlane> {
    let control_plane = CONTROL_PLANE.get().await?;
    control_plane.apply_crds(&run_karpenter(&["crds"])?).await?;
    Ok(control_plane)
}

const OBJECTS: &str = r"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: columns}
spec:
  weight: 7
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: columns}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: columns
  labels: {node.kubernetes.io/instance-type: m5.large, karpenter.sh/capacity-type: spot, topology.kubernetes.io/zone: a, karpenter.sh/nodepool: columns}
spec:
  requirements: []
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: columns}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: columns}
spec:
  role: node-role
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
";

#[tokio::test]
async fn kubectl_shows_the_printer_columns_of_upstream() -> Result<()> {
    let control_plane = control_plane_with_crds().await?;
    control_plane.kubectl(&["apply", "-f", "-"], Some(OBJECTS)).await?.into_stdout()?;
    let mut tables = Vec::new();
    for kind in ["nodepools", "nodeclaims", "ec2nc"] {
        let wide = ["get", kind, "columns", "-o", "wide"];
        tables.push(control_plane.kubectl(&wide, None).await?.into_stdout()?);
    }
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let headers: Vec<_> =
        tables.iter().filter_map(|table| table.lines().next().map(words)).collect();
    assert_eq!(
        headers,
        [
            "NAME NODECLASS NODES READY AGE WEIGHT CPU MEMORY",
            "NAME TYPE CAPACITY ZONE NODE READY AGE IMAGEID ID NODEPOOL NODECLASS DRIFTED",
            "NAME READY AGE ROLE",
        ]
    );
    let claim = tables[1].lines().nth(1).map(words).context("a claim")?;
    assert!(claim.starts_with("columns m5.large spot a "), "{claim}");

    let plain =
        control_plane.kubectl(&["get", "nodepools,nodeclaims,ec2nodeclasses"], None).await?;
    let plain = plain.into_stdout()?;
    assert!(plain.contains("nodepool.karpenter.sh/columns"), "{plain}");
    let category =
        control_plane.kubectl(&["get", "karpenter", "-o", "name"], None).await?.into_stdout()?;
    assert_eq!(category.lines().filter(|name| name.ends_with("/columns")).count(), 3, "{category}");
    Ok(())
}

#[tokio::test]
async fn kubectl_scales_static_node_pools_only() -> Result<()> {
    let control_plane = control_plane_with_crds().await?;
    let pool = |name: &str, spec: &str| {
        format!(
            "{{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {{name: {name}}}, spec: {{{spec} \
             template: {{spec: {{requirements: [], nodeClassRef: {{group: example.com, kind: Class, name: default}}}}}}}}}}"
        )
    };
    let pools = [pool("scale-static", "replicas: 3,"), pool("scale-dynamic", "")].join("\n---\n");
    control_plane.kubectl(&["apply", "-f", "-"], Some(&pools)).await?.into_stdout()?;

    let scale = ["scale", "nodepool/scale-static", "--replicas=5"];
    control_plane.kubectl(&scale, None).await?.into_stdout()?;
    let replicas = ["get", "nodepool", "scale-static", "-o", "jsonpath={.spec.replicas}"];
    assert_eq!(control_plane.kubectl(&replicas, None).await?.into_stdout()?, "5", "10/NP-S4");

    let scale = ["scale", "nodepool/scale-dynamic", "--replicas=5"];
    let refused = control_plane.kubectl(&scale, None).await?;
    let rule = "Cannot transition NodePool between static";
    assert!(
        !refused.status.success() && refused.stderr.contains(rule),
        "10/NP-S5: {}",
        refused.stderr
    );
    Ok(())
}

#[tokio::test]
async fn kubectl_explains_fields() -> Result<()> {
    let control_plane = control_plane_with_crds().await?;
    let explain = ["explain", "nodepool.spec.disruption.budgets", "--recursive=false"];
    let text = control_plane.kubectl(&explain, None).await?.into_stdout()?;
    for field in ["duration", "nodes", "reasons", "schedule"] {
        assert!(text.contains(field), "{text}");
    }
    assert!(!text.contains("<no description>"), "{text}");
    Ok(())
}

/// The first half of 10/LG-19; that the output also passes runtime validation is shown by the
/// converter's own tests.
#[tokio::test]
async fn the_api_server_accepts_converted_manifests() -> Result<()> {
    let control_plane = control_plane_with_crds().await?;
    let folder = workspace().join("scenarios/legacy");
    let mut files = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let is_manifest = path.extension().is_some_and(|end| end == "yaml" || end == "json");
        if !is_manifest {
            continue;
        }
        files += 1;
        let path = path.to_str().context("a path that is text")?;
        for output in ["yaml", "json"] {
            let converted = run_karpenter(&["convert", "-f", path, "-o", output])?;
            let apply = ["apply", "--server-side", "--dry-run=server", "-f", "-", "-o", "name"];
            let names = control_plane.kubectl(&apply, Some(&converted)).await?.into_stdout()?;
            let applied = |kind: &str| names.contains(kind);
            assert!(
                applied("nodepool.karpenter.sh/") && applied("ec2nodeclass.karpenter.k8s.aws/"),
                "10/LG-19: {path}: {names}"
            );
        }
    }
    assert!(files >= 4, "10/LG-19: v1alpha5 and v1beta1 files of each kind");
    Ok(())
}
