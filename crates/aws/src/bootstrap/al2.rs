//! AL2: a call of `bootstrap.sh` as the last part of a MIME archive (spec 50 §3.4).

use std::net::IpAddr;

use super::kubelet_args::kubelet_args;
use super::mime::{self, Part};
use super::{BootstrapError, BootstrapInput};

pub(super) fn render(input: &BootstrapInput<'_>) -> Result<String, BootstrapError> {
    let mut parts = match input.user_text().map(mime::without_carriage_returns) {
        None => Vec::new(),
        Some(text) if mime::is_archive(&text) => mime::parse(&text)?,
        Some(text) => vec![Part::shell_script(text)],
    };
    mime::check_open(&parts)?;
    parts.push(Part::shell_script(mime::without_carriage_returns(&script(input))));
    Ok(mime::write(&parts))
}

fn script(input: &BootstrapInput<'_>) -> String {
    let cluster = &input.cluster;
    let ca = cluster.ca_bundle.map(|ca| format!("--b64-cluster-ca '{ca}'")).unwrap_or_default();
    // The space before the CA stays without a CA, as upstream writes it.
    let call = format!(
        "/etc/eks/bootstrap.sh '{}' --apiserver-endpoint '{}' {ca}",
        cluster.name, cluster.endpoint
    );
    let dns = input.kubelet.first_dns();
    let options = [
        dns.filter(|dns| !is_ipv4(dns)).map(|_| "--ip-family ipv6".to_owned()),
        dns.map(|dns| format!("--dns-cluster-ip '{dns}'")),
        input.kubelet.max_pods().map(|_| "--use-max-pods false".to_owned()),
        Some(format!("--kubelet-extra-args '{}'", kubelet_args(input))),
        input.is_raid0().then(|| "--local-disks raid0".to_owned()),
    ];
    let lines: Vec<_> = std::iter::once(call).chain(options.into_iter().flatten()).collect();
    format!(
        "#!/bin/bash -xe\n\
         exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n{}",
        lines.join(" \\\n")
    )
}

/// Whether the address is IPv4. A text that is no address counts as IPv6, as upstream reads it.
fn is_ipv4(address: &str) -> bool {
    match address.parse() {
        Ok(IpAddr::V4(_)) => true,
        Ok(IpAddr::V6(address)) => address.to_ipv4_mapped().is_some(),
        Err(_) => false,
    }
}
