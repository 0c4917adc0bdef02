//! The examples of spec 50 §3.8, byte for byte.

use super::*;

const AL2: &str = r#"MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
/etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://api.demo' --b64-cluster-ca 'Q0EK' \
--dns-cluster-ip '172.20.0.10' \
--use-max-pods false \
--kubelet-extra-args '--node-labels="karpenter.sh/capacity-type=on-demand,karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=np,team=x" --register-with-taints="a=b:NoSchedule,karpenter.sh/unregistered:NoExecute" --max-pods=58'
--//--
"#;

const AL2023: &str = r#"MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

# Karpenter Generated NodeConfig
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
metadata: {}
spec:
  cluster:
    apiServerEndpoint: https://api.demo
    certificateAuthority: Q0EK
    cidr: 172.20.0.0/16
    name: demo
  containerd: {}
  instance:
    localStorage: {}
  kubelet:
    config:
      clusterDNS:
      - 172.20.0.10
      maxPods: 58
      registerWithTaints:
      - effect: NoSchedule
        key: a
        value: b
      - effect: NoExecute
        key: karpenter.sh/unregistered
    flags:
    - --node-labels="karpenter.sh/capacity-type=on-demand,karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=np,team=x"

--//--
"#;

const BOTTLEROCKET: &str = r#"
[settings.kubernetes]
api-server = "https://api.demo"
cluster-certificate = "Q0EK"
cluster-name = "demo"
cluster-dns-ip = "172.20.0.10"
max-pods = 58
[settings.kubernetes.node-labels]
"karpenter.sh/capacity-type" = "on-demand"
"karpenter.sh/do-not-sync-taints" = "true"
"karpenter.sh/nodepool" = "np"
team = "x"
[settings.kubernetes.node-taints]
a = ["b:NoSchedule"]
"karpenter.sh/unregistered" = [":NoExecute"]
"#;

const WINDOWS: &str = r#"<powershell>
[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"
& $EKSBootstrapScriptFile -EKSClusterName 'demo' -APIServerEndpoint 'https://api.demo' -Base64ClusterCA 'Q0EK' -KubeletExtraArgs '--node-labels="karpenter.sh/capacity-type=on-demand,karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=np,team=x" --register-with-taints="a=b:NoSchedule,karpenter.sh/unregistered:NoExecute" --max-pods=110' -DNSClusterIP '172.20.0.10'
</powershell>"#;

#[test]
fn the_examples_are_reproduced() {
    assert_eq!(Example::of(AmiFamily::Al2).text(), AL2, "50 §3.8");
    assert_eq!(Example::of(AmiFamily::Al2023).text(), AL2023, "50 §3.8");
    let bottlerocket: toml::Table = Example::of(AmiFamily::Bottlerocket).text().parse().unwrap();
    assert_eq!(bottlerocket, BOTTLEROCKET.parse().unwrap(), "50 §3.8");
    for family in [AmiFamily::Windows2019, AmiFamily::Windows2022, AmiFamily::Windows2025] {
        let mut windows = Example::of(family);
        windows.resolved.max_pods = 110;
        assert_eq!(windows.text(), WINDOWS, "50 §3.8: {family:?}");
    }
}
