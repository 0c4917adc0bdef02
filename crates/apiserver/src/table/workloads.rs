//! What makes pods, and what keeps them.

use serde_json::Value;

use super::columns::{AGE, Column, NAME, boolean, integer, text as column, wide};
use super::human_duration;
use super::printer::{Printer, printer};
use super::row::{Row, container_names_and_images, has_condition, items, text};
use super::selector;

pub(super) const PRINTERS: &[Printer] = &[
    printer("apps", "deployments", DEPLOYMENT_COLUMNS, deployment),
    printer("apps", "replicasets", REPLICA_COLUMNS, |row| {
        replicas(row, selector::format_selector(row.at("spec.selector")))
    }),
    printer("", "replicationcontrollers", REPLICA_COLUMNS, |row| {
        replicas(row, selector::format_labels(row.at("spec.selector")))
    }),
    printer(
        "apps",
        "statefulsets",
        &[NAME, column("Ready"), AGE, wide("Containers"), wide("Images")],
        |row| {
            let mut cells = vec![row.name(), ready_replicas(row).into(), row.age()];
            cells.extend(template_containers(row, "spec.template"));
            cells
        },
    ),
    printer("apps", "daemonsets", DAEMON_COLUMNS, daemon_set),
    printer(
        "apps",
        "controllerrevisions",
        &[NAME, column("Controller"), column("Revision"), AGE],
        |row| {
            vec![row.name(), controller_owner(row).into(), row.number("revision").into(), row.age()]
        },
    ),
    printer("batch", "jobs", JOB_COLUMNS, job),
    printer("batch", "cronjobs", CRON_JOB_COLUMNS, cron_job),
    printer("policy", "poddisruptionbudgets", BUDGET_COLUMNS, pod_disruption_budget),
];

const DEPLOYMENT_COLUMNS: &[Column] = &[
    NAME,
    column("Ready"),
    column("Up-to-date"),
    column("Available"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

const REPLICA_COLUMNS: &[Column] = &[
    NAME,
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

const DAEMON_COLUMNS: &[Column] = &[
    NAME,
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    integer("Up-to-date"),
    integer("Available"),
    column("Node Selector"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

const JOB_COLUMNS: &[Column] = &[
    NAME,
    column("Status"),
    column("Completions"),
    column("Duration"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

const CRON_JOB_COLUMNS: &[Column] = &[
    NAME,
    column("Schedule"),
    column("Timezone"),
    boolean("Suspend"),
    integer("Active"),
    column("Last Schedule"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

const BUDGET_COLUMNS: &[Column] = &[
    NAME,
    column("Min Available"),
    column("Max Unavailable"),
    integer("Allowed Disruptions"),
    AGE,
];

fn template_containers(row: Row<'_>, template: &str) -> [Value; 2] {
    container_names_and_images(items(row.at(template), "spec.containers"))
}

fn ready_replicas(row: Row<'_>) -> String {
    format!("{}/{}", row.number("status.readyReplicas"), row.number("spec.replicas"))
}

fn deployment(row: Row<'_>) -> Vec<Value> {
    let selector = selector::format_requirements(row.at("spec.selector"));
    let mut cells = vec![
        row.name(),
        ready_replicas(row).into(),
        row.number("status.updatedReplicas").into(),
        row.number("status.availableReplicas").into(),
        row.age(),
    ];
    cells.extend(template_containers(row, "spec.template"));
    cells.push(selector.unwrap_or_else(|| "<invalid>".to_owned()).into());
    cells
}

fn replicas(row: Row<'_>, selector: String) -> Vec<Value> {
    let mut cells = vec![
        row.name(),
        row.number("spec.replicas").into(),
        row.number("status.replicas").into(),
        row.number("status.readyReplicas").into(),
        row.age(),
    ];
    cells.extend(template_containers(row, "spec.template"));
    cells.push(selector.into());
    cells
}

fn daemon_set(row: Row<'_>) -> Vec<Value> {
    let mut cells = vec![
        row.name(),
        row.number("status.desiredNumberScheduled").into(),
        row.number("status.currentNumberScheduled").into(),
        row.number("status.numberReady").into(),
        row.number("status.updatedNumberScheduled").into(),
        row.number("status.numberAvailable").into(),
        selector::format_labels(row.at("spec.template.spec.nodeSelector")).into(),
        row.age(),
    ];
    cells.extend(template_containers(row, "spec.template"));
    cells.push(selector::format_selector(row.at("spec.selector")).into());
    cells
}

/// Returns the owner that controls the object, such as `deployment.apps/web`.
fn controller_owner(row: Row<'_>) -> String {
    let owners = row.items("metadata.ownerReferences");
    let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else {
        return "<none>".to_owned();
    };
    let group = text(owner, "apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    let dot = if group.is_empty() { "" } else { "." };
    let kind = text(owner, "kind").to_lowercase();
    format!("{kind}{dot}{}/{}", group.to_lowercase(), text(owner, "name"))
}

fn job(row: Row<'_>) -> Vec<Value> {
    let succeeded = row.number("status.succeeded");
    let completions = match (row.at("spec.completions").as_i64(), row.number("spec.parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let start = row.text("status.startTime").parse();
    let end = row.text("status.completionTime").parse().unwrap_or(row.now);
    let duration =
        start.map_or_else(|_| String::new(), |start| human_duration::format_between(start, end));
    let mut cells =
        vec![row.name(), job_status(row).into(), completions.into(), duration.into(), row.age()];
    cells.extend(template_containers(row, "spec.template"));
    cells.push(selector::format_selector(row.at("spec.selector")).into());
    cells
}

fn job_status(row: Row<'_>) -> &'static str {
    let has = |kind| has_condition(row.items("status.conditions"), kind);
    if let Some(end) = ["Complete", "Failed"].into_iter().find(|kind| has(kind)) {
        return end;
    }
    if row.is_terminating() {
        return "Terminating";
    }
    let states = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    states.into_iter().find(|kind| has(kind)).unwrap_or("Running")
}

fn cron_job(row: Row<'_>) -> Vec<Value> {
    let suspend = match row.at("spec.suspend").as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = match row.text("status.lastScheduleTime") {
        "" => "<none>".to_owned(),
        time => row.age_since_time(time),
    };
    let mut cells = vec![
        row.name(),
        row.text("spec.schedule").into(),
        row.text_or("spec.timeZone", "<none>").into(),
        suspend.into(),
        row.count("status.active").into(),
        last.into(),
        row.age(),
    ];
    cells.extend(template_containers(row, "spec.jobTemplate.spec.template"));
    cells.push(selector::format_selector(row.at("spec.jobTemplate.spec.selector")).into());
    cells
}

fn pod_disruption_budget(row: Row<'_>) -> Vec<Value> {
    let amount = |path: &str| match row.at(path) {
        Value::Null => "N/A".into(),
        Value::String(text) => Value::from(text.as_str()),
        number => number.to_string().into(),
    };
    vec![
        row.name(),
        amount("spec.minAvailable"),
        amount("spec.maxUnavailable"),
        row.number("status.disruptionsAllowed").into(),
        row.age(),
    ]
}
