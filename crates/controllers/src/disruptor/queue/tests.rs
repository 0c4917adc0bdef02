//! Tests of the command queue: start, completion and rollback of commands.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::condition_set::Status;
use karpenter_core::disruption::{Method, Replacement, TerminateFirstReason};
use karpenter_operator::options::Options;
use serde_json::json;

use super::*;
use crate::disruptor::observation::Observation;
use crate::disruptor::start::start;
use crate::disruptor::testing::{cluster, condition, delete, node, running_pod};
use crate::testing::Bench;
use crate::testing::fixtures::{POOL, has, node_claim};

struct Fixture {
    bench: Bench,
    command_queue: CommandQueue,
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
        let command_queue = CommandQueue::new(&bench.context);
        Self { bench, command_queue }
    }

    async fn observe(&self) -> Observation {
        Observation::collect(&self.bench.context).await
    }

    async fn start(
        &self,
        observation: &Observation,
        command: Command,
    ) -> Result<(), ReconcileError> {
        let started = start(&self.bench.context, &self.command_queue, observation, command).await;
        self.bench.settle().await;
        started
    }

    /// Starts a command that removes nodes, with this number of replacements.
    async fn begin(&self, method: Method, names: &[&str], replacements: usize) {
        let observation = self.observe().await;
        let command = with_replacements(delete(&observation, method, names), replacements);
        self.start(&observation, command).await.expect("it begins");
    }

    /// Reconciles every started command once.
    async fn reconcile_commands(&self) {
        let queue = controller(&self.bench.context, &self.command_queue);
        for active in self.command_queue.commands() {
            queue.reconcile(&ObjectKey::new("", &active.id)).await.expect("a look");
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
        let state_node = context.mirror.tracked_node(&id, context.clock.now()).expect("is known");
        state_node.is_marked_by_command
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
async fn candidates_are_deleted_when_their_replacement_is_initialized() {
    let fixture = Fixture::new().await;
    running_pod(&fixture.bench, "p", "a", "1").await;
    fixture.begin(Method::SingleNode, &["a"], 1).await;
    assert!(fixture.is_disrupted("a").await, "30/Q-1, 30/INV-8");
    let [replacement] = &fixture.replacements()[..] else { panic!("one replacement") };
    fixture.reconcile_commands().await;
    let reasons: Vec<_> = fixture.bench.events().into_iter().map(|(reason, _)| reason).collect();
    assert!(reasons.contains(&"DisruptionLaunching".to_owned()), "30/Q-1: {reasons:?}");
    assert!(reasons.contains(&"DisruptionWaitingReadiness".to_owned()), "30/Q-1: {reasons:?}");
    assert!(
        !fixture.is_deleted("a").await && fixture.command_queue.is_queued("fake:///a"),
        "30/Q-1"
    );
    fixture.initialize(replacement).await;
    fixture.reconcile_commands().await;
    assert!(fixture.is_deleted("a").await, "30/Q-3");
    assert!(fixture.command_queue.commands().is_empty(), "30/Q-3");
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
async fn candidates_stay_until_every_replacement_was_initialized() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::Drift, &["a"], 2).await;
    let [first, second] = &fixture.replacements()[..] else { panic!("two replacements") };
    fixture.initialize(first).await;
    fixture.reconcile_commands().await;
    assert!(!fixture.is_deleted("a").await, "30/Q-2");
    // It is not observed again.
    fixture.bench.delete(node_claim(first, &json!({}))).await;
    fixture.reconcile_commands().await;
    assert!(
        !fixture.is_deleted("a").await && fixture.command_queue.is_queued("fake:///a"),
        "30/Q-2"
    );
    fixture.initialize(second).await;
    fixture.reconcile_commands().await;
    assert!(fixture.is_deleted("a").await, "30/Q-2");
}

#[tokio::test(start_paused = true)]
async fn candidates_without_replacements_are_deleted_at_once() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::Emptiness, &["a", "b", "c"], 0).await;
    fixture.reconcile_commands().await;
    for name in ["a", "b", "c"] {
        assert!(fixture.is_deleted(name).await, "30/Q-4: {name}");
    }
    let labels = [("decision", "delete"), ("reason", "empty"), ("consolidation_type", "empty")];
    assert_eq!(fixture.count("voluntary_disruption_decisions_total", &labels), 1, "30/IF-1");
    let by_pool = "voluntary_disruption_decisions_by_nodepool_total";
    assert_eq!(fixture.count(by_pool, &labels), 1, "30/IF-1");
}

#[tokio::test(start_paused = true)]
async fn decision_metrics_count_started_commands() {
    let fixture = Fixture::new().await;
    let observation = fixture.observe().await;
    let first = Command {
        terminate_first: Some(TerminateFirstReason::StaticAtLimit),
        ..delete(&observation, Method::Drift, &["c"])
    };
    fixture.begin(Method::Drift, &["a"], 0).await;
    fixture.begin(Method::Drift, &["b"], 1).await;
    fixture.start(&observation, first).await.expect("it begins");
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
async fn commands_complete_independently() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::Drift, &["a"], 1).await;
    let first = fixture.replacements();
    fixture.begin(Method::Drift, &["b"], 1).await;
    let second: Vec<_> =
        fixture.replacements().into_iter().filter(|name| !first.contains(name)).collect();
    fixture.initialize(&second[0]).await;
    fixture.reconcile_commands().await;
    assert_eq!((fixture.is_deleted("a").await, fixture.is_deleted("b").await), (false, true));
    fixture.initialize(&first[0]).await;
    fixture.reconcile_commands().await;
    assert!(fixture.is_deleted("a").await, "30/Q-5");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_takes_too_long_is_rolled_back() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::SingleNode, &["a"], 2).await;
    let replacements = fixture.replacements();
    fixture.initialize(&replacements[0]).await;
    fixture.bench.pass(Duration::from_mins(11)).await;
    fixture.reconcile_commands().await;
    assert!(!fixture.is_disrupted("a").await, "30/Q-6, 30/INV-9");
    assert!(!fixture.is_deleted("a").await && fixture.command_queue.commands().is_empty());
    let labels =
        [("decision", "replace"), ("reason", "underutilized"), ("consolidation_type", "single")];
    let failures = fixture.count("voluntary_disruption_queue_failures_total", &labels);
    assert_eq!(failures, 1, "30/Q-6, 45/BC-6");
    assert_eq!(fixture.replacements(), replacements, "they stay as capacity");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_replacement_rolls_its_command_back() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::Drift, &["a"], 1).await;
    fixture.reconcile_commands().await;
    let replacement = fixture.replacements().remove(0);
    fixture.bench.delete(node_claim(&replacement, &json!({}))).await;
    fixture.reconcile_commands().await;
    assert!(!fixture.is_disrupted("a").await, "30/Q-7, 30/DRF-8, 30/INV-9");
    assert!(fixture.command_queue.commands().is_empty(), "30/Q-7");
    let now = fixture.bench.context.clock.now();
    assert!(fixture.command_queue.backed_off(now).contains(POOL), "drift waits");
    let later = now + SignedDuration::from_mins(2);
    assert!(!fixture.command_queue.backed_off(later).contains(POOL), "30/DRF-8: and is retried");
}

#[tokio::test(start_paused = true)]
async fn deleting_all_candidates_ends_the_command() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::Drift, &["a"], 1).await;
    let free = json!({"metadata": {"finalizers": []}});
    fixture.bench.patch(node_claim("a", &free)).await;
    fixture.bench.delete(node_claim("a", &json!({}))).await;
    fixture.reconcile_commands().await;
    assert!(fixture.command_queue.commands().is_empty(), "30 §13 #7");
    assert_eq!(fixture.replacements().len(), 1);
    assert_eq!(fixture.count("nodeclaims_disrupted_total", &[("reason", "drifted")]), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_taint_aborts_replace_commands_but_not_delete_commands() {
    for (case, replacements) in [("30/Q-13: delete", 0), ("30/Q-13: replace", 1)] {
        let fixture = Fixture::new().await;
        let (context, faults) = fixture.bench.with_faults();
        (0..4).for_each(|_| faults.fail("PATCH", "/nodes/b", 500));
        let observation = fixture.observe().await;
        let command = delete(&observation, Method::MultiNode, &["a", "b", "c"]);
        let command = with_replacements(command, replacements);
        let started = start(&context, &fixture.command_queue, &observation, command).await;
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
            assert!(!fixture.command_queue.is_queued("fake:///b"), "{case}");
        } else {
            let text = started.expect_err(case).to_string();
            assert!(text.starts_with("marking disrupted, tainting nodes, "), "{case}: {text}");
            assert!(disrupted.is_empty() && fixture.replacements().is_empty(), "{case}");
            assert!(fixture.command_queue.provider_ids().is_empty(), "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn marks_missing_on_the_api_server_are_written_with_a_stale_cache() {
    let fixture = Fixture::new().await;
    let (context, observation) = (&fixture.bench.context, fixture.observe().await);
    // Marks that an earlier command left and a restart removed; the watch has not delivered that
    // yet.
    let mut stale = fixture.bench.claim("a").await;
    stale.metadata.resource_version = Some("1000000".to_owned());
    let mut conditions = stale.condition_set(context.clock.now());
    conditions.set("DisruptionReason", Status::True, "Drifted", "Drifted");
    context.cache.node_claims.apply_write_result(stale);
    let command = delete(&observation, Method::Drift, &["a"]);
    fixture.start(&observation, command).await.expect("it begins");
    assert!(fixture.has_reason("a").await, "the API server has it as well");
}

#[tokio::test(start_paused = true)]
async fn candidates_count_as_deleting_only_after_their_replacement_exists() {
    let fixture = Fixture::new().await;
    let (context, faults) = fixture.bench.with_faults();
    faults.hang("POST", "/nodeclaims");
    let observation = fixture.observe().await;
    let command = with_replacements(delete(&observation, Method::Drift, &["a"]), 1);
    let command_queue = fixture.command_queue.clone();
    let hanging = (context.clone(), observation.clone(), command.clone());
    fixture.bench.tasks.spawn("start", async move {
        let (context, observation, command) = hanging;
        let _ = start(&context, &command_queue, &observation, command).await;
    });
    fixture.bench.pass(Duration::from_mins(1)).await;
    assert!(fixture.is_tainted("a").await && !fixture.is_marked("a"), "30/Q-10, 30/INV-8");
    let again = fixture.start(&observation, command).await.unwrap_err();
    assert_eq!(again.to_string(), "candidate is being disrupted");
}

#[tokio::test(start_paused = true)]
async fn a_failed_replacement_launch_rolls_everything_back() {
    let fixture = Fixture::new().await;
    let (context, faults) = fixture.bench.with_faults();
    faults.fail("POST", "/nodeclaims", 500);
    let observation = fixture.observe().await;
    let command = with_replacements(delete(&observation, Method::Drift, &["a"]), 1);
    let error = start(&context, &fixture.command_queue, &observation, command).await.unwrap_err();
    fixture.bench.settle().await;
    let text = error.to_string();
    let start = "launching replacement nodeclaim, creating node claim, made to fail with 500";
    assert!(text.starts_with(start), "{text}");
    assert!(!fixture.is_disrupted("a").await, "30/INV-9");
    assert!(fixture.command_queue.provider_ids().is_empty());
    let granted = fixture.bench.context.mirror.reserve_nodes(POOL, 4, 4);
    assert_eq!(granted, 1, "45/RM-25: three nodes, and nothing is reserved");
}

#[tokio::test(start_paused = true)]
async fn a_command_on_a_queued_node_reserves_no_static_capacity() {
    let fixture = Fixture::new().await;
    fixture.begin(Method::Drift, &["a"], 0).await;
    let observation = fixture.observe().await;
    let mut second = with_replacements(delete(&observation, Method::Repair, &["b"]), 1);
    second.candidates[0].provider_id = "fake:///a".to_owned();
    fixture.start(&observation, second).await.expect_err("is taken");
    let granted = fixture.bench.context.mirror.reserve_nodes(POOL, 4, 4);
    assert_eq!(granted, 1, "45/RM-25: three nodes, and nothing is reserved");
}

#[tokio::test(start_paused = true)]
async fn the_drain_deadline_starts_at_deletion_and_is_never_extended() {
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
        let observation = fixture.observe().await;
        let command = delete(&observation, Method::Repair, &["a"]);
        let command = with_replacements(Command { drain_bound: Some(bound), ..command }, 1);
        fixture.start(&observation, command).await.expect("it begins");
        fixture.bench.pass(Duration::from_mins(5)).await;
        fixture.reconcile_commands().await;
        let stamp = async || {
            let claim = fixture.bench.claim("a").await;
            claim.annotations().get(NODECLAIM_TERMINATION_TIMESTAMP).cloned()
        };
        assert_eq!((stamp().await, fixture.is_deleted("a").await), (None, false), "45/RM-15");
        let now = fixture.bench.context.clock.now();
        let text = match present {
            Some(present) => deadline::format(now + present),
            None => "soon".to_owned(),
        };
        let notes = json!({"metadata": {"annotations": {NODECLAIM_TERMINATION_TIMESTAMP: text}}});
        if present.is_some() || case.starts_with("an") {
            fixture.bench.patch(node_claim("a", &notes)).await;
        }
        fixture.initialize(&fixture.replacements()[0]).await;
        fixture.reconcile_commands().await;
        let found: Timestamp = stamp().await.expect(case).parse().expect(case);
        let late = found.duration_since(now + minutes(expected)).as_secs();
        assert!((-1..=1).contains(&late), "{case}: {late}");
        assert!(fixture.is_deleted("a").await, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_candidate_is_not_deleted_before_its_deadline_is_annotated() {
    let fixture = Fixture::new().await;
    let (context, faults) = fixture.bench.with_faults();
    let observation = fixture.observe().await;
    let bound = Some(SignedDuration::from_mins(5));
    let command = Command { drain_bound: bound, ..delete(&observation, Method::Repair, &["a"]) };
    fixture.start(&observation, command).await.expect("it begins");
    (0..4).for_each(|_| faults.fail("PATCH", "/nodeclaims/a", 500));
    let failing = controller(&context, &fixture.command_queue);
    let key = ObjectKey::new("", &fixture.command_queue.commands()[0].id);
    assert_eq!(
        failing.reconcile(&key).await.expect("a look"),
        Outcome::RequeueAfter(POLL_INTERVAL),
        "45/RM-14"
    );
    fixture.bench.settle().await;
    assert!(!fixture.is_deleted("a").await, "45/RM-14");
    failing.reconcile(&key).await.expect("a look");
    fixture.bench.settle().await;
    let claim = fixture.bench.claim("a").await;
    assert!(claim.annotations().contains_key(NODECLAIM_TERMINATION_TIMESTAMP), "45/RM-14");
    assert!(fixture.is_deleted("a").await, "45/RM-14");
}

#[tokio::test(start_paused = true)]
async fn deleted_candidates_are_counted_once_when_other_deletions_fail() {
    let fixture = Fixture::new().await;
    let (context, faults) = fixture.bench.with_faults();
    fixture.begin(Method::Emptiness, &["a", "b"], 0).await;
    (0..4).for_each(|_| faults.fail("DELETE", "/nodeclaims/b", 500));
    let failing = controller(&context, &fixture.command_queue);
    let key = ObjectKey::new("", &fixture.command_queue.commands()[0].id);
    for _ in 0..2 {
        failing.reconcile(&key).await.expect("a look");
        fixture.bench.settle().await;
    }
    assert!(fixture.is_deleted("a").await && fixture.is_deleted("b").await);
    assert_eq!(fixture.count("nodeclaims_disrupted_total", &[("reason", "empty")]), 2);
}

#[test]
fn command_ids_are_version_4_uuids() {
    assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
    assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
}
