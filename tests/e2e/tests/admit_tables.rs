//! Runs every schema and CEL case of the API on a real API server.
//!
//! The same tables run on the embedded API in `crates/karpenter/tests/admission.rs`; here both APIs
//! must return the same messages, word for word.

use std::sync::Arc;

use anyhow::Result;
use karpenter_api::crds::{CrdSet, crds};
use karpenter_apiserver::admission::CustomKind;
use karpenter_apiserver::testing::admission_table::{FollowUp, Row, parse, patched};
use karpenter_e2e::{ApiError, ControlPlane, Objects};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Concurrent requests; the API server is one process on this host.
const CONCURRENCY: usize = 8;

#[tokio::test]
async fn the_api_server_matches_the_aws_admission_tables() -> Result<()> {
    check_tables(
        CrdSet::Aws,
        &[
            ("nodepool", include_str!("../../../scenarios/admission/nodepool.yaml")),
            ("nodeclaim", include_str!("../../../scenarios/admission/nodeclaim.yaml")),
            ("nodeoverlay", include_str!("../../../scenarios/admission/nodeoverlay.yaml")),
            ("capacitybuffer", include_str!("../../../scenarios/admission/capacitybuffer.yaml")),
            ("ec2nodeclass", include_str!("../../../scenarios/admission/ec2nodeclass.yaml")),
        ],
    )
    .await
}

#[tokio::test]
async fn the_api_server_matches_the_kwok_admission_tables() -> Result<()> {
    check_tables(CrdSet::Kwok, &[("kwok", include_str!("../../../scenarios/admission/kwok.yaml"))])
        .await
}

async fn check_tables(set: CrdSet, tables: &[(&str, &str)]) -> Result<()> {
    let control_plane = ControlPlane::start().await?;
    control_plane.apply_crds(&list(&crds(set))).await?;
    let objects = control_plane.objects()?;
    let rows = tables.iter().flat_map(|(name, yaml)| {
        let rows = parse(yaml).rows.into_iter().enumerate();
        rows.map(move |(index, mut row)| {
            // Under a name of its own, since all of them stay until the end.
            let name = json!({"metadata": {"name": format!("{name}-{index}")}});
            row.object = patched(&row.object, &name);
            row
        })
    });

    let rows: Vec<_> = rows.collect();
    let count = rows.len();
    let compile = |crd| CustomKind::from_crd(crd).expect("our own CRDs compile");
    let kinds: Arc<Vec<_>> = Arc::new(crds(set).iter().map(compile).collect());
    let mut batches = JoinSet::new();
    for batch in rows.chunks(count.div_ceil(CONCURRENCY)) {
        batches.spawn(find_problems(kinds.clone(), objects.clone(), batch.to_vec()));
    }
    let problems = batches.join_all().await.concat();
    assert!(count > 50, "the tables were read");
    assert!(problems.is_empty(), "{} of {count} rows:\n{}", problems.len(), problems.join("\n"));
    Ok(())
}

/// Returns the problems of these rows, which run one after the other.
async fn find_problems(
    kinds: Arc<Vec<CustomKind>>,
    objects: Objects,
    rows: Vec<Row>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for row in rows {
        let answer = send_row(&objects, &row).await;
        let answer = answer.as_ref().map_err(|error| error.message.as_str());
        let kind = kinds.iter().find(|kind| row.object["kind"] == kind.kind());
        let ours = kind.map(|kind| row.admit(kind));
        let embedded_difference =
            ours.and_then(|ours| find_difference(answer, ours.as_ref().map_err(String::as_str)));
        if let Some(problem) = row.find_mismatch(answer).or(embedded_difference) {
            problems.push(format!("{} {}: {}: {problem}", row.id, row.claim, row.object));
        }
    }
    problems
}

/// Returns the difference between the embedded admission and the API server, if any. The order in
/// which the API server lists errors changes from call to call, so words are compared, not texts;
/// stored objects are compared as far as both know them.
fn find_difference(real: Result<&Value, &str>, ours: Result<&Value, &str>) -> Option<String> {
    let words = |text: &str| {
        let is_mark = |c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']');
        let mut words: Vec<_> = text.split(is_mark).map(str::to_owned).collect();
        words.retain(|word| !word.is_empty());
        words.sort_unstable();
        words
    };
    let same = match (real, ours) {
        (Ok(real), Ok(ours)) => real["spec"] == ours["spec"] && real["status"] == ours["status"],
        (Err(real), Err(ours)) => words(real) == words(ours),
        _ => false,
    };
    (!same).then(|| format!("the embedded API answers {ours:?}, the real one {real:?}"))
}

/// Creates the row's object and takes the row's further step.
async fn send_row(objects: &Objects, row: &Row) -> Result<Value, ApiError> {
    let created = objects.create(&row.object).await;
    match &row.follow_up {
        FollowUp::CreateOnly => created,
        FollowUp::Update(patch) => {
            objects.update(&patched(&expect_created(row, created), patch)).await
        }
        FollowUp::UpdateStatus(patch) => {
            objects.update_status(&patched(&expect_created(row, created), patch)).await
        }
    }
}

#[track_caller]
fn expect_created(row: &Row, created: Result<Value, ApiError>) -> Value {
    created.unwrap_or_else(|error| panic!("{} {}: create refused: {error}", row.id, row.claim))
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}
