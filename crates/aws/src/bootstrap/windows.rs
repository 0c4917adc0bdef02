//! Windows: a PowerShell script that calls `Start-EKSBootstrap.ps1` (spec 50 §3.7).

use super::BootstrapInput;
use super::kubelet_args::kubelet_args;

pub(super) fn render(input: &BootstrapInput<'_>) -> String {
    let cluster = &input.cluster;
    let user = input.user_text().map(|text| format!("{text}\n")).unwrap_or_default();
    let option = |name: &str, value: &str| format!(" {name} '{value}'");
    let call = [
        "& $EKSBootstrapScriptFile".to_owned(),
        option("-EKSClusterName", cluster.name),
        option("-APIServerEndpoint", cluster.endpoint),
        cluster.ca_bundle.map(|ca| option("-Base64ClusterCA", ca)).unwrap_or_default(),
        option("-KubeletExtraArgs", &kubelet_args(input)),
        input.kubelet.first_dns().map(|dns| option("-DNSClusterIP", dns)).unwrap_or_default(),
    ]
    .concat();
    format!(
        "<powershell>\n{user}[string]$EKSBootstrapScriptFile = \
         \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n{call}\n</powershell>"
    )
}
