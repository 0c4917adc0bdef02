//! Tests of core's metrics against the committed list, and of the registry.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::labels::{Code, PodName, Pool};
use super::*;
use crate::clock::TokioClock;

fn metrics() -> Metrics {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
    let config = MetricsConfig {
        well_known: karpenter_api::labels::WELL_KNOWN.iter().map(|&key| key.to_owned()).collect(),
        node_class_labels: vec!["karpenter.test.sh/testnodeclass".to_owned()],
        ..MetricsConfig::default()
    };
    Metrics::new(clock, &config)
}

/// Name, type, stage, labels and buckets of every metric are those of the committed list.
#[tokio::test]
async fn metrics_match_the_committed_list() {
    let line = |family: &Family| {
        let Family { name, metric_type, stage, labels, buckets, .. } = family;
        let buckets: Vec<_> = buckets.iter().map(|bound| format!("{bound:.5e}")).collect();
        let (metric_type, stage) = (metric_type.name(), stage.name());
        format!("{name} | {metric_type} | {stage} | {} | {}", labels.join(" "), buckets.join(" "))
            .trim_end()
            .to_owned()
    };
    let made: Vec<_> = metrics().registry().families().iter().map(line).collect();
    let list: Vec<_> = expected_families();
    for (made, listed) in made.iter().zip(&list) {
        assert_eq!(made, listed);
    }
    assert_eq!(made.len(), list.len());
}

/// Returns the committed list, with names of bucket sets replaced by their bounds.
fn expected_families() -> Vec<String> {
    let mut sets: BTreeMap<&str, String> = BTreeMap::new();
    let mut list = Vec::new();
    for line in include_str!("list.txt").lines() {
        if let Some(set) = line.strip_prefix("= ") {
            let (name, bounds) = set.split_once(": ").unwrap();
            let bound = |bound: &str| format!("{:.5e}", bound.parse::<f64>().unwrap());
            let bounds: Vec<_> = bounds.split_whitespace().map(bound).collect();
            sets.insert(name, bounds.join(" "));
        } else if !line.starts_with('#') && !line.is_empty() {
            let (rest, set) = line.rsplit_once('|').unwrap();
            let bounds = sets.get(set.trim()).map_or("", String::as_str);
            assert!(set.trim().is_empty() || !bounds.is_empty(), "{line}");
            list.push(format!("{rest}| {bounds}").trim_end().to_owned());
        }
    }
    list.sort_by(|a, b| a.split(' ').next().cmp(&b.split(' ').next()));
    list
}

#[tokio::test]
async fn every_metric_has_a_help_text() {
    for family in metrics().registry().families() {
        assert!(family.help.ends_with('.') && family.help.len() > 5, "{family:?}");
        let page = reference(metrics().registry(), "X");
        assert!(page.contains(&format!("| `{}` | ", family.name)), "{}", family.name);
    }
}

#[tokio::test]
async fn build_info_has_four_labels() {
    let metrics = metrics();
    let info =
        labels::BuildInfo { version: "1", goversion: "rustc 1", goarch: "amd64", commit: "c" };
    metrics.build_info.set(&info, 1.0);
    let wanted = [("version", "1"), ("goversion", "rustc 1"), ("goarch", "amd64"), ("commit", "c")];
    assert_eq!(metrics.registry().value("karpenter_build_info", &wanted), Some(1.0), "40/OP-16");
}

/// Gauges of objects and metrics of conditions exist once a controller records them: without the
/// controllers there are none.
#[tokio::test]
async fn unrecorded_metrics_are_not_exposed() {
    let metrics = metrics();
    metrics.pods_eviction_requests.inc(&Code { code: "200" });
    let text = metrics.registry().text();
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert_eq!(
        names,
        [
            "karpenter_pods_eviction_requests_total counter",
            "karpenter_voluntary_disruption_consolidation_timeouts_total counter",
        ],
        "40/OB-18"
    );
}

#[tokio::test]
async fn timeouts_of_consolidation_start_at_zero() {
    let metrics = metrics();
    for consolidation_type in ["multi", "single"] {
        let name = "karpenter_voluntary_disruption_consolidation_timeouts_total";
        let labels = [("consolidation_type", consolidation_type)];
        assert_eq!(metrics.registry().value(name, &labels), Some(0.0));
    }
}

#[tokio::test]
async fn counters_never_shrink() {
    let metrics = metrics();
    let labels = Code { code: "200" };
    metrics.pods_eviction_requests.inc(&labels);
    metrics.pods_eviction_requests.add(&labels, -5.0);
    metrics.pods_eviction_requests.add(&labels, f64::NAN);
    let name = "karpenter_pods_eviction_requests_total";
    assert_eq!(metrics.registry().value(name, &[("code", "200")]), Some(1.0));
}

const UNSTARTED: &str = "karpenter_pods_unstarted_time_seconds";

fn unstarted_sample(metrics: &Metrics, name: &str, number: f64) -> Sample {
    metrics.pods_unstarted_time.sample(&PodName { name, namespace: "n" }, number)
}

#[tokio::test]
async fn an_update_with_other_labels_removes_the_old_series() {
    let (metrics, store) = (metrics(), Store::new());
    store.update(
        &1,
        vec![unstarted_sample(&metrics, "a", 1.0), unstarted_sample(&metrics, "b", 2.0)],
    );
    store.update(
        &1,
        vec![unstarted_sample(&metrics, "b", 3.0), unstarted_sample(&metrics, "c", 4.0)],
    );
    let value = |name| metrics.registry().value(UNSTARTED, &[("name", name), ("namespace", "n")]);
    assert_eq!([value("a"), value("b"), value("c")], [None, Some(3.0), Some(4.0)], "40/OB-06");
    store.update(&2, vec![unstarted_sample(&metrics, "d", 1.0)]);
    store.delete(&1);
    assert_eq!(metrics.registry().series_count(UNSTARTED), 1);
}

#[tokio::test]
async fn replacing_all_samples_with_none_removes_every_series() {
    let (metrics, store) = (metrics(), Store::new());
    store.replace_all([(1, vec![unstarted_sample(&metrics, "a", 1.0)]), (2, Vec::new())].into());
    store.replace_all([(2, vec![unstarted_sample(&metrics, "a", 2.0)])].into());
    let labels = [("name", "a"), ("namespace", "n")];
    assert_eq!(metrics.registry().value(UNSTARTED, &labels), Some(2.0), "taken over");
    store.replace_all(BTreeMap::new());
    assert_eq!(metrics.registry().series_count(UNSTARTED), 0, "40/OB-07");
}

#[tokio::test]
async fn node_metrics_have_the_well_known_labels() {
    let metrics = metrics();
    let zone = |key: &str| (key == "topology.kubernetes.io/zone").then_some("z");
    let node = metrics.nodes.series("a", "Running", true, zone);
    let store = Store::new();
    store.update(
        &1,
        vec![
            metrics.nodes.allocatable.sample(&node, "ephemeral-storage", 5.0),
            metrics.nodes.current_lifetime.sample(&node, 7.0),
        ],
    );
    let labels = "arch=\"\",capacity_type=\"\",instance_type=\"\",managed=\"true\",node_name=\"a\",nodepool=\"\",os=\"\",phase=\"Running\",region=\"\"";
    let text = metrics.registry().text();
    for line in [
        format!(
            "karpenter_nodes_allocatable{{{labels},resource_type=\"ephemeral_storage\",windows_build=\"\",zone=\"z\"}} 5"
        ),
        format!(
            "karpenter_nodes_current_lifetime_seconds{{{labels},windows_build=\"\",zone=\"z\"}} 7"
        ),
    ] {
        assert!(text.contains(&line), "40/OB-09 {line}\n{text}");
    }
}

#[test]
fn every_node_label_has_a_valid_metric_label_name() {
    for (key, wanted) in [
        ("karpenter.sh/capacity-type", "capacity_type"),
        ("node.kubernetes.io/windows-build", "windows_build"),
        ("nvidia.com/GPU", "gpu"),
        ("x/2nd", "_2nd"),
        ("x/", "_"),
        ("\u{e4}", "_"),
    ] {
        assert_eq!(label_name(key), wanted, "{key}");
    }
}

#[test]
fn resource_types_keep_their_group() {
    for (resource, wanted) in
        [("ephemeral-storage", "ephemeral_storage"), ("nvidia.com/GPU", "nvidia.com/gpu")]
    {
        assert_eq!(resource_type(resource), wanted);
    }
}

#[tokio::test]
async fn node_labels_with_the_same_metric_name_do_not_conflict() {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
    let well_known = ["a/zone", "b/zone", "c/phase", "d/resource-type", ""].map(str::to_owned);
    let config = MetricsConfig { well_known: well_known.into(), ..MetricsConfig::default() };
    let metrics = Metrics::new(clock, &config);
    let node = metrics.nodes.series("a", "", false, |key| (key == "a/zone").then_some("z"));
    Store::new().update(&1, vec![metrics.nodes.current_lifetime.sample(&node, 1.0)]);
    assert!(metrics.registry().text().contains("zone=\"z\""));
}

#[tokio::test(start_paused = true)]
async fn summaries_show_quantiles_of_the_last_ten_minutes() {
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
    let metrics = Metrics::new(clock.clone(), &MetricsConfig::default());
    let pool = Pool { nodepool: "p" };
    for seconds in 1..=1000 {
        metrics.nodes_termination_duration.observe(&pool, f64::from(seconds));
    }
    let name = "karpenter_nodes_termination_duration_seconds";
    let quantile = |quantile: &str| -> f64 {
        let text = metrics.registry().text();
        let start = format!("{name}{{nodepool=\"p\",quantile=\"{quantile}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or(&text);
        line.parse().unwrap()
    };
    for (shown, wanted) in
        [("0", 1.0), ("0.5", 500.0), ("0.9", 900.0), ("0.99", 990.0), ("1", 1000.0)]
    {
        let got = quantile(shown);
        assert!((got - wanted).abs() <= 0.011 * wanted, "{shown}: {got}");
    }
    assert!(metrics.registry().text().contains(&format!("# TYPE {name} summary")));
    clock.sleep(Duration::from_mins(7)).await;
    metrics.nodes_termination_duration.observe(&pool, 5000.0);
    assert!((quantile("0.5") - 500.0).abs() < 6.0);
    clock.sleep(Duration::from_mins(5)).await;
    assert!((quantile("0.5") - 5000.0).abs() <= 0.0);
    clock.sleep(Duration::from_mins(10)).await;
    assert!(quantile("0.5").is_nan());
    let text = metrics.registry().text();
    assert!(text.contains(&format!("{name}_count{{nodepool=\"p\"}} 1001")), "of all time");
    assert!(text.contains(&format!("{name}_sum{{nodepool=\"p\"}} 505500")), "of all time");
}

#[tokio::test]
async fn summaries_accept_any_number() {
    let metrics = metrics();
    for number in
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, f64::MAX, f64::MIN_POSITIVE]
    {
        metrics.pods_startup_duration.observe(&NoLabels, number);
    }
    let name = "karpenter_pods_startup_duration_seconds";
    assert_eq!(metrics.registry().value(name, &[]), Some(7.0));
}
