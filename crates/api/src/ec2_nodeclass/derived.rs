//! Names and tags that follow from an EC2NodeClass and its cluster (spec 10 §6.4).

use std::collections::BTreeMap;

use super::Ec2NodeClass;
use crate::hash::fnv;
use crate::{labels, tags};

/// The cluster that a controller works for, as far as names and tags need it.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// Name of the cluster.
    pub name: &'a str,
    /// Region of the cluster.
    pub region: &'a str,
}

impl Ec2NodeClass {
    /// Name of the instance profile that former releases made for this class.
    pub fn legacy_instance_profile_name(&self, cluster: Cluster<'_>) -> String {
        let hashed = format!("{}{}", cluster.region, self.name());
        format!("{}_{}", cluster.name, fnv(hashed.as_bytes()))
    }

    /// Name of a new instance profile; `unique` is a random UUID.
    pub fn instance_profile_name(&self, cluster: Cluster<'_>, unique: &str) -> String {
        let hashed = format!("{}{}{unique}", cluster.region, self.name());
        format!("{}_{}", cluster.name, fnv(hashed.as_bytes()))
    }

    /// IAM path of the instance profiles of this class.
    pub fn instance_profile_path(&self, cluster: Cluster<'_>) -> String {
        let uid = self.metadata.uid.as_deref().unwrap_or_default();
        format!("/karpenter/{}/{}/{uid}/", cluster.region, cluster.name)
    }

    /// Tags of the instance profiles: the user's, overlaid with ours.
    pub fn instance_profile_tags(&self, cluster: Cluster<'_>) -> BTreeMap<String, String> {
        let mut all = self.tags_of(cluster);
        all.insert(tags::REGION.to_owned(), cluster.region.to_owned());
        all
    }

    /// Tags of instances, volumes, network interfaces and launch templates of a pool.
    pub fn instance_tags(&self, cluster: Cluster<'_>, nodepool: &str) -> BTreeMap<String, String> {
        let mut all = self.tags_of(cluster);
        all.insert(labels::NODEPOOL.to_owned(), nodepool.to_owned());
        all
    }

    fn tags_of(&self, cluster: Cluster<'_>) -> BTreeMap<String, String> {
        let mut all = self.spec.tags.clone().unwrap_or_default();
        all.insert(tags::cluster(cluster.name), tags::OWNED.to_owned());
        all.insert(tags::EKS_CLUSTER_NAME.to_owned(), cluster.name.to_owned());
        all.insert(tags::EC2_NODE_CLASS.to_owned(), self.name().to_owned());
        all
    }

    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: Cluster<'static> = Cluster { name: "demo", region: "us-west-2" };

    fn class() -> Ec2NodeClass {
        let mut class = Ec2NodeClass::new("default", super::super::Ec2NodeClassSpec::default());
        class.metadata.uid = Some("uid-1".to_owned());
        class.spec.tags = Some(
            [("team", "a"), ("eks:eks-cluster-name", "other")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
        );
        class
    }

    #[test]
    fn profiles_of_former_releases_are_found_by_name() {
        assert_eq!(class().legacy_instance_profile_name(CLUSTER), "demo_4067990795380418201");
        assert_ne!(
            class().instance_profile_name(CLUSTER, "b"),
            class().instance_profile_name(CLUSTER, "c")
        );
        assert_eq!(class().instance_profile_path(CLUSTER), "/karpenter/us-west-2/demo/uid-1/");
    }

    #[test]
    fn our_tags_win_over_the_users() {
        let profile = class().instance_profile_tags(CLUSTER);
        let text = |tags: &BTreeMap<String, String>| {
            tags.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>()
        };
        assert_eq!(
            text(&profile),
            [
                "eks:eks-cluster-name=demo",
                "karpenter.k8s.aws/ec2nodeclass=default",
                "kubernetes.io/cluster/demo=owned",
                "team=a",
                "topology.kubernetes.io/region=us-west-2"
            ]
        );
        let instance = class().instance_tags(CLUSTER, "general");
        assert_eq!(
            text(&instance),
            [
                "eks:eks-cluster-name=demo",
                "karpenter.k8s.aws/ec2nodeclass=default",
                "karpenter.sh/nodepool=general",
                "kubernetes.io/cluster/demo=owned",
                "team=a"
            ]
        );
    }
}
