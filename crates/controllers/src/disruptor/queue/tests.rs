use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::condition_set::Status;
use karpenter_core::disruption::{Method, Replacement, TerminateFirst};
use karpenter_operator::options::Options;
use serde_json::json;

use super::*;
use crate::disruptor::sight::Sight;
use crate::disruptor::start::start;
use crate::disruptor::testing::{cluster, condition, delete, node, running_pod};
use crate::testing::Bench;
use crate::testing::fixtures::{POOL, has, node_claim};

struct Fixture {
    bench: Bench,
    orchestration: Orchestration,
}

impl Fixture {
    /// A cluster with nodes `a`, `b` and `c`.
    async fn new() -> Self {
        // In a box, as its future is large.
        Box::pin(Self::make()).await
    }

    async fn make() -> Self {
        let bench = cluster(Options::default(), &json!({})).await;
        for name in ["a", "b", "c"] {
            node(&bench, name, "large", &json!({})).await;
        }
        let orchestration = Orchestration::new(&bench.context);
        Self { bench, orchestration }
    }

    async fn sight(&self) -> Sight {
        Sight::take(&self.bench.context).await
    }

    async fn start(&self, sight: &Sight, command: Command) -> Result<(), Trouble> {
        let started = start(&self.bench.context, &self.orchestration, sight, command).await;
        self.bench.settle().await;
        started
    }

    /// Begins to remove nodes, with so many replacements.
    async fn begin(&self, method: Method, names: &[&str], replacements: usize) {
        let sight = self.sight().await;
        let command = with_replacements(delete(&sight, method, names), replacements);
        self.start(&sight, command).await.expect("it begins");
    }

    /// One look at every command.
    async fn poll(&self) {
        let executor = controller(&self.bench.context, &self.orchestration);
        for flight in self.orchestration.commands() {
            executor.reconcile(&ObjectKey::new("", &flight.id)).await.expect("a look");
        }
        self.bench.settle().await;
    }

    /// The claims that were created as replacements.
    fn replacements(&self) -> Vec<String> {
        let claims = self.bench.context.cache.node_claims.all().into_iter();
        let names = claims.map(|claim| claim.name_any());
        names.filter(|name| name.starts_with("general-")).collect()
    }

    async fn initialize(&self, name: &str) {
        let conditions = [condition(&self.bench, "Initialized", "True")];
        let status = json!({"status": {"conditions": conditions}});
        self.bench.patch_status(node_claim(name, &status)).await;
    }

    async fn is_tainted(&self, name: &str) -> bool {
        let node: Node = self.bench.node(name).await;
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted")
    }

    async fn has_reason(&self, name: &str) -> bool {
        has(&self.bench.claim(name).await, "DisruptionReason", "True")
    }

    fn is_marked(&self, name: &str) -> bool {
        let (context, id) = (&self.bench.context, format!("fake:///{name}"));
        let machine = context.mirror.state_node(&id, context.clock.now()).expect("is known");
        machine.is_marked
    }

    async fn is_deleted(&self, name: &str) -> bool {
        self.bench.claim(name).await.metadata.deletion_timestamp.is_some()
    }

    /// Whether the node is tainted, named and marked; all of it or nothing.
    async fn is_disrupted(&self, name: &str) -> bool {
        let is = [self.is_tainted(name).await, self.has_reason(name).await, self.is_marked(name)];
        assert!(is.iter().all(|one| *one == is[0]), "{name}: {is:?}");
        is[0]
    }

    fn count(&self, metric: &str, labels: &[(&str, &str)]) -> usize {
        self.bench.metric(&format!("karpenter_{metric}"), labels)
    }
}

fn with_replacements(command: Command, count: usize) -> Command {
    let one = || Replacement::Template { pool: POOL.to_owned() };
    Command { replacements: (0..count).map(|_| one()).collect(), ..command }
}

#[tokio::test(start_paused = true)]
async fn sources_go_when_their_replacement_is_ready() {
    let fixture = Fixture::new().await;
    running_pod(&fixture.bench, "p", "a", "1").await;
    fixture.begin(Method::SingleNode, &["a"], 1).await;
    assert!(fixture.is_disrupted("a").await, "30/Q-1, 30/INV-8");
    let [replacement] = &fixture.replacements()[..] else { panic!("one replacement") };
    fixture.poll().await;
    let reasons: Vec<_> = fixture.bench.events().into_iter().map(|(reason, _)| reason).collect();
    assert!(reasons.contains(&"DisruptionLaunching".to_owned()), "30/Q-1: {reasons:?}");
    assert!(reasons.contains(&"DisruptionWaitingReadiness".to_owned()), "30/Q-1: {reasons:?}");
    assert!(!fixture.is_deleted("a").await && fixture.orchestration.has("fake:///a"), "30/Q-1");
    fixture.initialize(replacement).await;
    fixture.poll().await;
    assert!(fixture.is_deleted("a").await, "30/Q-3");
    assert!(fixture.orchestration.commands().is_empty(), "30/Q-3");
    let events = fixture.bench.events();
    for text in ["Disrupting Node: Underutilized", "Disrupting NodeClaim: Underutilized"] {
        assert!(events.iter().any(|(_, message)| message == text), "30/Q-3: {text}");
    }
    let labels = [
        ("reason", "underutilized"),
        ("consolidation_policy", "when_empty_or_underutilized"),
        ("termination_mode", "graceful"),
        ("capacity_type", "on-demand"),
    ];
    assert_eq!(fixture.count("nodeclaims_disrupted_total", &labels), 1);
    assert_eq!(fixture.count("pods_disruption_initiated_total", &labels), 1);
    let created = [("reason", "underutilized"), ("nodepool", POOL)];
    assert_eq!(fixture.count("nodeclaims_created_total", &created), 1);
    assert!(fixture.is_marked("a"), "the provisioner makes no capacity for its pods");
}

#[tokio::test(start_paused = true)]
async fn every_replacement_has_to_be_ready_once() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::Drift, &["a"], 2).await;
    let [first, second] = &fixture.replacements()[..] else { panic!("two replacements") };
    fixture.initialize(first).await;
    fixture.poll().await;
    assert!(!fixture.is_deleted("a").await, "30/Q-2");
    // It is not looked at again.
    fixture.bench.delete(node_claim(first, &json!({}))).await;
    fixture.poll().await;
    assert!(!fixture.is_deleted("a").await && fixture.orchestration.has("fake:///a"), "30/Q-2");
    fixture.initialize(second).await;
    fixture.poll().await;
    assert!(fixture.is_deleted("a").await, "30/Q-2");
}

#[tokio::test(start_paused = true)]
async fn what_needs_no_replacement_goes_at_once() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::Emptiness, &["a", "b", "c"], 0).await;
    fixture.poll().await;
    for name in ["a", "b", "c"] {
        assert!(fixture.is_deleted(name).await, "30/Q-4: {name}");
    }
    let labels = [("decision", "delete"), ("reason", "empty"), ("consolidation_type", "empty")];
    assert_eq!(fixture.count("voluntary_disruption_decisions_total", &labels), 1, "30/IF-1");
    let by_pool = "voluntary_disruption_decisions_by_nodepool_total";
    assert_eq!(fixture.count(by_pool, &labels), 1, "30/IF-1");
}

#[tokio::test(start_paused = true)]
async fn decisions_are_counted_when_they_begin() {
    let fixture = Fixture::new().await;
    let sight = fixture.sight().await;
    let first = Command {
        terminate_first: Some(TerminateFirst::StaticAtLimit),
        ..delete(&sight, Method::Drift, &["c"])
    };
    fixture.begin(Method::Drift, &["a"], 0).await;
    fixture.begin(Method::Drift, &["b"], 1).await;
    fixture.start(&sight, first).await.expect("it begins");
    let count = |decision, reason, kind| {
        let labels = [("decision", decision), ("reason", reason), ("consolidation_type", kind)];
        fixture.count("voluntary_disruption_decisions_total", &labels)
    };
    assert_eq!(count("delete", "drifted", ""), 1, "30/IF-2");
    assert_eq!(count("replace", "drifted", ""), 1, "30/IF-2");
    assert_eq!(count("terminate-first", "drifted", ""), 1, "45/TF-16");
    let labels = [("nodepool", POOL), ("terminate_first_reason", "static-at-limit")];
    let first = "voluntary_disruption_terminate_first_decisions_total";
    assert_eq!(fixture.count(first, &labels), 1, "45/TF-16");
    let other = Box::pin(Fixture::new()).await;
    other.begin(Method::MultiNode, &["a", "b"], 1).await;
    let labels =
        [("decision", "replace"), ("reason", "underutilized"), ("consolidation_type", "multi")];
    assert_eq!(other.count("voluntary_disruption_decisions_total", &labels), 1, "30/IF-3");
}

#[tokio::test(start_paused = true)]
async fn commands_end_each_on_its_own() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::Drift, &["a"], 1).await;
    let first = fixture.replacements();
    fixture.begin(Method::Drift, &["b"], 1).await;
    let second: Vec<_> =
        fixture.replacements().into_iter().filter(|name| !first.contains(name)).collect();
    fixture.initialize(&second[0]).await;
    fixture.poll().await;
    assert_eq!((fixture.is_deleted("a").await, fixture.is_deleted("b").await), (false, true));
    fixture.initialize(&first[0]).await;
    fixture.poll().await;
    assert!(fixture.is_deleted("a").await, "30/Q-5");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_takes_too_long_is_rolled_back() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::SingleNode, &["a"], 2).await;
    let replacements = fixture.replacements();
    fixture.initialize(&replacements[0]).await;
    fixture.bench.pass(Duration::from_mins(11)).await;
    fixture.poll().await;
    assert!(!fixture.is_disrupted("a").await, "30/Q-6, 30/INV-9");
    assert!(!fixture.is_deleted("a").await && fixture.orchestration.commands().is_empty());
    let labels =
        [("decision", "replace"), ("reason", "underutilized"), ("consolidation_type", "single")];
    let failures = fixture.count("voluntary_disruption_queue_failures_total", &labels);
    assert_eq!(failures, 1, "30/Q-6, 45/BC-6");
    assert_eq!(fixture.replacements(), replacements, "they stay as capacity");
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_goes_takes_its_command_along() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::Drift, &["a"], 1).await;
    fixture.poll().await;
    let replacement = fixture.replacements().remove(0);
    fixture.bench.delete(node_claim(&replacement, &json!({}))).await;
    fixture.poll().await;
    assert!(!fixture.is_disrupted("a").await, "30/Q-7, 30/DRF-8, 30/INV-9");
    assert!(fixture.orchestration.commands().is_empty(), "30/Q-7");
    let now = fixture.bench.context.clock.now();
    assert!(fixture.orchestration.backed_off(now).contains(POOL), "drift waits");
    let later = now + SignedDuration::from_mins(2);
    assert!(!fixture.orchestration.backed_off(later).contains(POOL), "30/DRF-8: and is retried");
}

#[tokio::test(start_paused = true)]
async fn sources_that_somebody_deleted_end_the_command() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::Drift, &["a"], 1).await;
    let free = json!({"metadata": {"finalizers": []}});
    fixture.bench.patch(node_claim("a", &free)).await;
    fixture.bench.delete(node_claim("a", &json!({}))).await;
    fixture.poll().await;
    assert!(fixture.orchestration.commands().is_empty(), "30 §13 #7");
    assert_eq!(fixture.replacements().len(), 1);
    assert_eq!(fixture.count("nodeclaims_disrupted_total", &[("reason", "drifted")]), 0);
}

#[tokio::test(start_paused = true)]
async fn sources_that_cannot_be_marked_stop_replacements_and_not_deletes() {
    for (case, replacements) in [("30/Q-13: delete", 0), ("30/Q-13: replace", 1)] {
        let fixture = Fixture::new().await;
        let (context, faults) = fixture.bench.with_faults();
        (0..4).for_each(|_| faults.fail("PATCH", "/nodes/b", 500));
        let sight = fixture.sight().await;
        let command = delete(&sight, Method::MultiNode, &["a", "b", "c"]);
        let command = with_replacements(command, replacements);
        let started = start(&context, &fixture.orchestration, &sight, command).await;
        fixture.bench.settle().await;
        let mut disrupted = Vec::new();
        for name in ["a", "b", "c"] {
            if fixture.is_disrupted(name).await {
                disrupted.push(name);
            }
        }
        if replacements == 0 {
            started.expect(case);
            assert_eq!(disrupted, ["a", "c"], "{case}");
            assert!(!fixture.orchestration.has("fake:///b"), "{case}");
        } else {
            let text = started.expect_err(case).to_string();
            assert!(text.starts_with("marking disrupted, tainting nodes, "), "{case}: {text}");
            assert!(disrupted.is_empty() && fixture.replacements().is_empty(), "{case}");
            assert!(fixture.orchestration.machines().is_empty(), "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn marks_that_the_cache_alone_still_has_are_made_again() {
    let fixture = Fixture::new().await;
    let (context, sight) = (&fixture.bench.context, fixture.sight().await);
    // What an earlier command left and a restart took back, of which the watch did not tell yet.
    let mut stale = fixture.bench.claim("a").await;
    stale.metadata.resource_version = Some("1000000".to_owned());
    let mut conditions = stale.condition_set(context.clock.now());
    conditions.set("DisruptionReason", Status::True, "Drifted", "Drifted");
    context.cache.node_claims.learn(stale);
    let command = delete(&sight, Method::Drift, &["a"]);
    fixture.start(&sight, command).await.expect("it begins");
    assert!(fixture.has_reason("a").await, "the API server has it as well");
}

#[tokio::test(start_paused = true)]
async fn sources_do_not_count_as_going_before_their_replacement_exists() {
    let fixture = Fixture::new().await;
    let (context, faults) = fixture.bench.with_faults();
    faults.hang("POST", "/nodeclaims");
    let sight = fixture.sight().await;
    let command = with_replacements(delete(&sight, Method::Drift, &["a"]), 1);
    let orchestration = fixture.orchestration.clone();
    let hanging = (context.clone(), sight.clone(), command.clone());
    fixture.bench.tasks.spawn("start", async move {
        let (context, sight, command) = hanging;
        let _ = start(&context, &orchestration, &sight, command).await;
    });
    fixture.bench.pass(Duration::from_mins(1)).await;
    assert!(fixture.is_tainted("a").await && !fixture.is_marked("a"), "30/Q-10, 30/INV-8");
    let again = fixture.start(&sight, command).await.unwrap_err();
    assert_eq!(again.to_string(), "candidate is being disrupted");
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_cannot_be_created_leaves_no_trace() {
    let fixture = Fixture::new().await;
    let (context, faults) = fixture.bench.with_faults();
    faults.fail("POST", "/nodeclaims", 500);
    let sight = fixture.sight().await;
    let command = with_replacements(delete(&sight, Method::Drift, &["a"]), 1);
    let trouble = start(&context, &fixture.orchestration, &sight, command).await.unwrap_err();
    fixture.bench.settle().await;
    let text = trouble.to_string();
    let start = "launching replacement nodeclaim, creating node claim, made to fail with 500";
    assert!(text.starts_with(start), "{text}");
    assert!(!fixture.is_disrupted("a").await, "30/INV-9");
    assert!(fixture.orchestration.machines().is_empty());
    let granted = fixture.bench.context.mirror.reserve_nodes(POOL, 4, 4);
    assert_eq!(granted, 1, "45/RM-25: three nodes, and nothing is reserved");
}

#[tokio::test(start_paused = true)]
async fn a_command_on_a_taken_node_reserves_nothing() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::Drift, &["a"], 0).await;
    let sight = fixture.sight().await;
    let mut second = with_replacements(delete(&sight, Method::Repair, &["b"]), 1);
    second.candidates[0].provider_id = "fake:///a".to_owned();
    fixture.start(&sight, second).await.expect_err("is taken");
    let granted = fixture.bench.context.mirror.reserve_nodes(POOL, 4, 4);
    assert_eq!(granted, 1, "45/RM-25: three nodes, and nothing is reserved");
}

#[tokio::test(start_paused = true)]
async fn the_bound_of_a_drain_counts_from_the_deletion_and_is_never_extended() {
    let minutes = SignedDuration::from_mins;
    #[rustfmt::skip]
    let cases = [
        ("45/RM-12",            minutes(0),  None,             0),
        ("45/RM-13",            minutes(5),  None,             5),
        ("45/RM-13: it stays",  minutes(10), Some(minutes(5)), 5),
        ("an unreadable one",   minutes(10), None,             10),
    ];
    for (case, bound, present, expected) in cases {
        let fixture = Fixture::new().await;
        let sight = fixture.sight().await;
        let command = delete(&sight, Method::Repair, &["a"]);
        let command = with_replacements(Command { drain_bound: Some(bound), ..command }, 1);
        fixture.start(&sight, command).await.expect("it begins");
        fixture.bench.pass(Duration::from_mins(5)).await;
        fixture.poll().await;
        let stamp = async || {
            let claim = fixture.bench.claim("a").await;
            claim.annotations().get(NODECLAIM_TERMINATION_TIMESTAMP).cloned()
        };
        assert_eq!((stamp().await, fixture.is_deleted("a").await), (None, false), "45/RM-15");
        let now = fixture.bench.context.clock.now();
        let text = match present {
            Some(present) => deadline::text(now + present),
            None => "soon".to_owned(),
        };
        let notes = json!({"metadata": {"annotations": {NODECLAIM_TERMINATION_TIMESTAMP: text}}});
        if present.is_some() || case.starts_with("an") {
            fixture.bench.patch(node_claim("a", &notes)).await;
        }
        fixture.initialize(&fixture.replacements()[0]).await;
        fixture.poll().await;
        let found: Timestamp = stamp().await.expect(case).parse().expect(case);
        let late = found.duration_since(now + minutes(expected)).as_secs();
        assert!((-1..=1).contains(&late), "{case}: {late}");
        assert!(fixture.is_deleted("a").await, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_is_not_deleted_before_it_is_stamped() {
    let fixture = Fixture::new().await;
    let (context, faults) = fixture.bench.with_faults();
    let sight = fixture.sight().await;
    let bound = Some(SignedDuration::from_mins(5));
    let command = Command { drain_bound: bound, ..delete(&sight, Method::Repair, &["a"]) };
    fixture.start(&sight, command).await.expect("it begins");
    (0..4).for_each(|_| faults.fail("PATCH", "/nodeclaims/a", 500));
    let failing = controller(&context, &fixture.orchestration);
    let key = ObjectKey::new("", &fixture.orchestration.commands()[0].id);
    assert_eq!(failing.reconcile(&key).await.expect("a look"), Outcome::After(POLL), "45/RM-14");
    fixture.bench.settle().await;
    assert!(!fixture.is_deleted("a").await, "45/RM-14");
    failing.reconcile(&key).await.expect("a look");
    fixture.bench.settle().await;
    let claim = fixture.bench.claim("a").await;
    assert!(claim.annotations().contains_key(NODECLAIM_TERMINATION_TIMESTAMP), "45/RM-14");
    assert!(fixture.is_deleted("a").await, "45/RM-14");
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_is_counted_once_although_others_could_not_be() {
    let fixture = Fixture::new().await;
    let (context, faults) = fixture.bench.with_faults();
    fixture.begin(Method::Emptiness, &["a", "b"], 0).await;
    (0..4).for_each(|_| faults.fail("DELETE", "/nodeclaims/b", 500));
    let failing = controller(&context, &fixture.orchestration);
    let key = ObjectKey::new("", &fixture.orchestration.commands()[0].id);
    for _ in 0..2 {
        failing.reconcile(&key).await.expect("a look");
        fixture.bench.settle().await;
    }
    assert!(fixture.is_deleted("a").await && fixture.is_deleted("b").await);
    assert_eq!(fixture.count("nodeclaims_disrupted_total", &[("reason", "empty")]), 2);
}

#[test]
fn ids_are_random_uuids() {
    assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
    assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
}
