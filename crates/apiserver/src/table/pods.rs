//! Pods: one word for the state of all containers.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::columns::{AGE, NAME, text as column, wide};
use super::human_duration;
use super::printer::{Printer, printer};
use super::row::{Row, at, container_names_and_images, has_condition, items, number, text};
use super::selector;

pub(super) const PRINTERS: &[Printer] = &[
    Printer {
        group: "",
        plural: "pods",
        columns: &[
            NAME,
            column("Ready"),
            column("Status"),
            column("Restarts"),
            AGE,
            wide("IP"),
            wide("Node"),
            wide("Nominated Node"),
            wide("Readiness Gates"),
        ],
        cells: pod,
        conditions: Some(conditions),
    },
    printer("", "podtemplates", TEMPLATE_COLUMNS, pod_template),
];

const TEMPLATE_COLUMNS: &[super::Column] =
    &[NAME, column("Containers"), column("Images"), column("Pod Labels")];

fn conditions(row: Row<'_>) -> Option<Value> {
    let (reason, message) = match row.text("status.phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

fn pod(row: Row<'_>) -> Vec<Value> {
    let mut summary = PodSummary::from_row(row);
    if !summary.read_init_containers(row)
        || has_condition(row.items("status.conditions"), "Initialized")
    {
        summary.read_containers(row);
    }
    if row.is_terminating() {
        if row.text("status.reason") == "NodeLost" {
            summary.reason = "Unknown".into();
        } else if !matches!(row.text("status.phase"), "Succeeded" | "Failed") {
            summary.reason = "Terminating".into();
        }
    }
    let ip = row.items("status.podIPs").first().map_or("", |ip| text(ip, "ip"));
    vec![
        row.name(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        summary.restarts.to_text(row.now).into(),
        row.age(),
        if ip.is_empty() { "<none>" } else { ip }.into(),
        row.text_or("spec.nodeName", "<none>").into(),
        row.text_or("status.nominatedNodeName", "<none>").into(),
        readiness_gates(row).into(),
    ]
}

/// How often containers have been started again, and when the last of them ended.
#[derive(Debug, Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count = self.count.saturating_add(number(status, "restartCount"));
        let ended = text(status, "lastState.terminated.finishedAt").parse().ok();
        self.last = self.last.max(ended);
    }

    fn to_text(self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                format!("{} ({} ago)", self.count, human_duration::format_between(last, now))
            }
            _ => self.count.to_string(),
        }
    }
}

struct PodSummary<'a> {
    reason: Cow<'a, str>,
    ready: usize,
    total: usize,
    restarts: Restarts,
    /// Those of init containers that go on running beside the others.
    sidecar_restarts: Restarts,
}

impl<'a> PodSummary<'a> {
    fn from_row(row: Row<'a>) -> Self {
        let mut reason = row.text_or("status.reason", row.text("status.phase"));
        let gated = |condition: &Value| {
            condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated"
        };
        if row.items("status.conditions").iter().any(gated) {
            reason = "SchedulingGated";
        }
        let sidecars = row.items("spec.initContainers").iter().filter(|c| is_sidecar(c)).count();
        Self {
            reason: reason.into(),
            ready: 0,
            total: row.items("spec.containers").len() + sidecars,
            restarts: Restarts::default(),
            sidecar_restarts: Restarts::default(),
        }
    }

    /// Reads init containers up to the first that is not done. Returns whether there is one.
    fn read_init_containers(&mut self, row: Row<'a>) -> bool {
        let specs = row.items("spec.initContainers");
        for (index, status) in row.items("status.initContainerStatuses").iter().enumerate() {
            let spec = specs.iter().rev().find(|spec| spec["name"] == status["name"]);
            let is_sidecar = spec.is_some_and(is_sidecar);
            self.restarts.add(status);
            if is_sidecar {
                self.sidecar_restarts.add(status);
            }
            let ended = at(status, "state.terminated");
            let waiting = text(status, "state.waiting.reason");
            if ended.is_object() && number(ended, "exitCode") == 0 {
                continue;
            }
            if is_sidecar && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            self.reason = if ended.is_object() {
                format!("Init:{}", termination_reason(ended)).into()
            } else if !matches!(waiting, "" | "PodInitializing") {
                format!("Init:{waiting}").into()
            } else {
                format!("Init:{index}/{}", specs.len()).into()
            };
            return true;
        }
        false
    }

    fn read_containers(&mut self, row: Row<'a>) {
        self.restarts = self.sidecar_restarts;
        let mut is_running = false;
        let mut error = None;
        for status in row.items("status.containerStatuses").iter().rev() {
            self.restarts.add(status);
            let waiting = text(status, "state.waiting.reason");
            let ended = at(status, "state.terminated");
            if !waiting.is_empty() {
                self.reason = waiting.into();
            } else if ended.is_object() {
                self.reason = termination_reason(ended);
                if number(ended, "exitCode") != 0 {
                    error = Some(self.reason.clone());
                }
            } else if status["ready"] == true && at(status, "state.running").is_object() {
                is_running = true;
                self.ready += 1;
            }
        }
        if self.reason != "Completed" {
            return;
        }
        let conditions = row.items("status.conditions");
        let is_ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
        if is_running && is_ready {
            self.reason = "Running".into();
        } else if let Some(error) = error {
            self.reason = error;
        } else if is_running {
            self.reason = "NotReady".into();
        }
    }
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn termination_reason(ended: &Value) -> Cow<'_, str> {
    match (text(ended, "reason"), number(ended, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(ended, "exitCode")).into(),
        ("", signal) => format!("Signal:{signal}").into(),
        (reason, _) => reason.into(),
    }
}

fn readiness_gates(row: Row<'_>) -> String {
    let gates = row.items("spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let conditions = row.items("status.conditions");
    let open = gates.iter().filter(|gate| has_condition(conditions, text(gate, "conditionType")));
    format!("{}/{}", open.count(), gates.len())
}

fn pod_template(row: Row<'_>) -> Vec<Value> {
    let [names, images] = container_names_and_images(items(row.object, "template.spec.containers"));
    vec![
        row.name(),
        names,
        images,
        selector::format_labels(row.at("template.metadata.labels")).into(),
    ]
}
