//! Tests of rendered user data: the specification's cases, recordings of upstream, properties.

mod bottlerocket;
mod cases;
mod examples;
mod invalid;
mod properties;
mod recorded;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use serde_json::{Map, Value};

use super::*;

/// An owned input. The default is the one of spec 50 §3.8.
#[derive(Debug)]
pub(super) struct Example {
    pub(super) family: AmiFamily,
    pub(super) cidr: Option<String>,
    pub(super) ca_bundle: Option<String>,
    pub(super) kubelet: Map<String, Value>,
    pub(super) resolved: ResolvedKubelet,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    pub(super) startup_taints: Vec<Taint>,
    pub(super) user_data: Option<String>,
    pub(super) is_raid0: bool,
    pub(super) default_bind: bool,
}

impl Example {
    pub(super) fn of(family: AmiFamily) -> Self {
        Self {
            family,
            cidr: Some("172.20.0.0/16".to_owned()),
            ca_bundle: Some("Q0EK".to_owned()),
            kubelet: Map::new(),
            resolved: ResolvedKubelet {
                max_pods: 58,
                kube_dns: Some("172.20.0.10".parse().unwrap()),
                ..ResolvedKubelet::default()
            },
            labels: labels(&[
                ("karpenter.sh/nodepool", "np"),
                ("team", "x"),
                ("topology.kubernetes.io/zone", "z1"),
            ]),
            taints: vec![taint("a", "b", "NoSchedule")],
            startup_taints: Vec::new(),
            user_data: None,
            is_raid0: false,
            default_bind: true,
        }
    }

    pub(super) fn with_user_data(mut self, text: &str) -> Self {
        self.user_data = Some(text.to_owned());
        self
    }

    pub(super) fn with_kubelet(mut self, kubelet: Value) -> Self {
        let Value::Object(kubelet) = kubelet else { panic!("not an object: {kubelet}") };
        self.kubelet = kubelet;
        self
    }

    pub(super) fn node_labels(&self) -> BTreeMap<String, String> {
        node_labels(&self.labels, "on-demand", self.family)
    }

    pub(super) fn render(&self) -> Result<UserData, BootstrapError> {
        let cluster = ClusterEndpoint {
            name: "demo",
            endpoint: "https://api.demo",
            ca_bundle: self.ca_bundle.as_deref(),
            cidr: self.cidr.as_deref(),
        };
        let kubelet = NodeKubelet::resolve(Some(&self.kubelet), &self.resolved)?;
        render(&BootstrapInput {
            family: self.family,
            cluster,
            kubelet: &kubelet,
            labels: &self.node_labels(),
            taints: &node_taints(&self.taints, &self.startup_taints),
            user_data: self.user_data.as_deref(),
            instance_store_policy: self.is_raid0.then_some(InstanceStorePolicy::Raid0),
            bottlerocket_default_bind: self.default_bind,
        })
    }

    #[track_caller]
    pub(super) fn text(&self) -> String {
        self.render().unwrap_or_else(|error| panic!("{:?}: {error}", self.family)).text
    }

    /// The settings table of Bottlerocket.
    #[track_caller]
    pub(super) fn settings(&self) -> toml::Table {
        let root: toml::Table = self.text().parse().unwrap();
        assert_eq!(root.keys().collect::<Vec<_>>(), ["settings"]);
        root["settings"].as_table().unwrap().clone()
    }

    /// The generated NodeConfig of AL2023: the last part.
    #[track_caller]
    pub(super) fn node_config(&self) -> Value {
        let parts = mime::parse(&self.text()).unwrap();
        let last = parts.last().unwrap();
        assert_eq!(last.headers[0].1, "application/node.eks.aws");
        assert!(last.body.starts_with("# Karpenter Generated NodeConfig\n"), "50/B12");
        serde_saphyr::from_str(&last.body).unwrap()
    }
}

pub(super) fn labels(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(super) fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint {
        key: key.to_owned(),
        value: (!value.is_empty()).then(|| value.to_owned()),
        effect: effect.to_owned(),
        ..Taint::default()
    }
}

#[test]
fn debug_output_has_no_user_data_and_no_ca_bundle() {
    let example = Example::of(AmiFamily::Al2).with_user_data("#!/bin/sh\ntoken=secret\n");
    let printed = format!("{:?}", example.render().unwrap());
    assert!(!printed.contains("secret") && !printed.contains("Q0EK"), "60/S14: {printed}");
}

#[test]
fn base64_and_size_are_those_of_the_text() {
    let data = Example::of(AmiFamily::Custom).with_user_data("special user data").render().unwrap();
    assert_eq!(data.to_base64(), "c3BlY2lhbCB1c2VyIGRhdGE=", "50/B21");
    assert_eq!(data.size_bytes(), 17);
    let sized = |bytes: usize| {
        Example::of(AmiFamily::Custom).with_user_data(&"x".repeat(bytes)).render().unwrap()
    };
    assert!(!sized(USER_DATA_WARNING_BYTES - 1).is_near_limit(), "55/UP-N8");
    assert!(sized(USER_DATA_WARNING_BYTES).is_near_limit(), "55/UP-N8");
}

#[test]
fn a_certificate_rotation_is_rendered_near_the_limit() {
    let mut example = Example::of(AmiFamily::Al2).with_user_data(&"#".repeat(13 * 1024));
    example.ca_bundle = Some("Q".repeat(2 * 1_844));
    assert!(example.render().unwrap().is_near_limit(), "55/UP-N8: rendered, with a warning");
}

#[test]
fn the_policy_of_the_class_is_read_by_name() {
    assert_eq!(InstanceStorePolicy::from_name("RAID0"), Some(InstanceStorePolicy::Raid0));
    assert_eq!(InstanceStorePolicy::from_name("raid0"), None);
}
