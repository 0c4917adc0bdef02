//! Tests of the generated clusters: determinism, profiles and the state of their nodes.

use clap::ValueEnum as _;
use serde_json::Value;

use super::{Feature, Features, Profile, Recipe, Types};

fn recipe(profile: Profile, seed: u64) -> Recipe {
    Recipe { profile, seed, pods: 40, nodes: 6, types: Types::Kwok, features: None }
}

fn count(objects: &[Value], kind: &str) -> usize {
    objects.iter().filter(|object| object["kind"] == kind).count()
}

#[test]
fn a_recipe_gives_the_same_case_each_time() {
    for profile in Profile::value_variants() {
        let recipe = recipe(*profile, 5);
        assert_eq!(recipe.generate().to_yaml(), recipe.generate().to_yaml(), "{profile:?}");
    }
}

#[test]
fn a_recipe_gives_the_requested_pending_pods_and_nodes() {
    for profile in Profile::value_variants() {
        for seed in 0..5 {
            let case =
                Recipe { features: Some(Features::default()), ..recipe(*profile, seed) }.generate();
            let waiting =
                |object: &&Value| object["kind"] == "Pod" && object["spec"]["nodeName"].is_null();
            assert_eq!(case.objects.iter().filter(waiting).count(), 40, "{profile:?} {seed}");
            assert_eq!(count(&case.objects, "Node"), 6, "{profile:?} {seed}");
        }
    }
}

#[test]
fn generated_object_names_are_unique() {
    for seed in 0..20 {
        let mut seen = std::collections::BTreeSet::new();
        for object in recipe(Profile::Wide, seed).generate().objects {
            let name = format!(
                "{} {} {}",
                object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]
            );
            assert!(seen.insert(name.clone()), "{name} twice with seed {seed}");
        }
    }
}

#[test]
fn a_requested_feature_adds_objects_of_its_kind() {
    let cases = [
        (Feature::Volumes, "PersistentVolumeClaim"),
        (Feature::StatefulSets, "PersistentVolumeClaim"),
        (Feature::Namespaces, "Namespace"),
        (Feature::Overlays, "NodeOverlay"),
        (Feature::Buffers, "CapacityBuffer"),
        (Feature::Daemons, "DaemonSet"),
        (Feature::Pdbs, "PodDisruptionBudget"),
    ];
    for (feature, kind) in cases {
        let features = Some([feature].into_iter().collect());
        let case = Recipe { features, ..recipe(Profile::Wide, 2) }.generate();
        assert!(count(&case.objects, kind) > 0, "{feature:?}");
    }
}

#[test]
fn disruption_features_appear_only_if_requested() {
    type Shows = fn(&str) -> bool;
    let cases: [(Feature, Shows); 7] = [
        (Feature::DoNotDisrupt, |text| text.contains("karpenter.sh/do-not-disrupt")),
        (Feature::Budgets, |text| !text.contains(r#""budgets":[{"nodes":"100%"}]"#)),
        (Feature::MixedPools, |text| text.contains(r#""name":"guarded""#)),
        (Feature::Spot, |text| text.contains(r#""karpenter.sh/capacity-type":"spot""#)),
        (Feature::Policies, |text| text.contains("Balanced")),
        (Feature::Costs, |text| text.contains("pod-deletion-cost")),
        (Feature::Constraints, |text| text.contains("podAntiAffinity")),
    ];
    for (feature, shows) in cases {
        let text = |features: &[Feature]| {
            let all = (0..8).map(|seed| {
                let features = Some(features.iter().copied().collect());
                let recipe = Recipe { pods: 0, features, ..recipe(Profile::Disruption, seed) };
                recipe.generate().to_yaml()
            });
            all.collect::<String>()
        };
        assert!(shows(&text(&[feature])), "{feature:?}");
        assert!(!shows(&text(&[])), "{feature:?} without it");
    }
}
