//! How nodes reach the instance metadata service (spec 50 §3.1).

use std::net::IpAddr;

use karpenter_api::ec2_nodeclass::MetadataOptions;

/// Regions whose EC2 API does not know the option `httpProtocolIpv6`.
const REGIONS_WITHOUT_IPV6_OPTION: [&str; 6] = [
    "us-iso-east-1",
    "us-iso-west-1",
    "us-isob-east-1",
    "us-isob-west-1",
    "us-isof-south-1",
    "us-isof-east-1",
];

/// Returns the metadata options of a launch template.
///
/// The schema fills in `spec.metadataOptions`. Only a class that bypassed it has none; then the
/// endpoint is disabled, as upstream does it.
pub fn launch_metadata_options(
    options: Option<&MetadataOptions>,
    kube_dns: Option<IpAddr>,
    region: &str,
) -> MetadataOptions {
    let is_ipv6 = kube_dns.is_some_and(|address| address.is_ipv6());
    let mut options = options.cloned().unwrap_or_else(|| MetadataOptions {
        http_endpoint: Some("disabled".to_owned()),
        http_protocol_ipv6: Some(if is_ipv6 { "enabled" } else { "disabled" }.to_owned()),
        http_put_response_hop_limit: Some(2),
        http_tokens: Some("required".to_owned()),
    });
    if REGIONS_WITHOUT_IPV6_OPTION.contains(&region) {
        options.http_protocol_ipv6 = None;
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_follow_kube_dns_and_region() {
        let ipv4 = Some("172.20.0.10".parse().unwrap());
        let ipv6 = Some("fd00::a".parse().unwrap());
        let own = MetadataOptions {
            http_endpoint: Some("enabled".to_owned()),
            http_protocol_ipv6: Some("enabled".to_owned()),
            http_put_response_hop_limit: Some(1),
            http_tokens: Some("optional".to_owned()),
        };
        #[rustfmt::skip]
        let cases = [
            // options    kube-dns  region            endpoint    IPv6              hops
            (None,        ipv4,     "us-west-2",      "disabled", Some("disabled"), 2),
            (None,        None,     "us-west-2",      "disabled", Some("disabled"), 2),
            (None,        ipv6,     "us-west-2",      "disabled", Some("enabled"),  2),
            (None,        ipv6,     "us-isob-west-1", "disabled", None,             2),
            (Some(&own),  ipv4,     "us-west-2",      "enabled",  Some("enabled"),  1),
            (Some(&own),  ipv4,     "us-iso-east-1",  "enabled",  None,             1),
        ];
        for (options, kube_dns, region, endpoint, protocol, hops) in cases {
            let found = launch_metadata_options(options, kube_dns, region);
            let found = (
                found.http_endpoint.as_deref(),
                found.http_protocol_ipv6.as_deref(),
                found.http_put_response_hop_limit,
            );
            let want = (Some(endpoint), protocol, Some(hops));
            assert_eq!(found, want, "50 §3.1: {options:?} {kube_dns:?} {region}");
        }
    }
}
