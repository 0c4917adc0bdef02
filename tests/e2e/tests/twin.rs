//! What the embedded API has to answer, asked of a real API server.
//!
//! The same scripts run on the embedded API in `crates/apiserver/tests/twin.rs`, against the
//! recordings that this test compares with, or, with `cargo xtask twin --record`, writes.

use std::path::{Path, PathBuf};

use anyhow::Result;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use karpenter_apiserver::testing::twin::compare::{compare, table};
use karpenter_apiserver::testing::twin::{self, Body, BoxError, Target};
use karpenter_e2e::{ControlPlane, Parts, wait};
use kube::Client;
use xtask::host;

/// Checks under way at once; each has its own namespace.
const AT_ONCE: usize = 8;

struct Real(Client);

impl Target for Real {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        let response = self.0.send(request.map(kube::client::Body::from)).await?;
        Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
    }

    async fn pause(&self) {
        wait::pause().await;
    }
}

#[tokio::test]
async fn the_recordings_are_what_a_real_api_server_answers() -> Result<()> {
    let plane = ControlPlane::start_with(Parts::API_AND_GARBAGE).await?;
    let target = Real(plane.client_without_retries()?);
    let only = host::var("TWIN_ONLY").map(|only| only.to_string_lossy().into_owned());
    let record = host::var("TWIN_RECORD").is_some();
    let mut outcomes = Vec::new();
    for area in twin::areas(&scripts()) {
        let wanted = |check: &str| {
            only.as_ref().is_none_or(|only| format!("{}: {check}", area.name).contains(only))
        };
        let found = twin::run(&area, &target, AT_ONCE, wanted).await;
        if found.checks().next().is_none() {
            continue;
        }
        let mut recorded = twin::recorded(&scripts(), &area.name);
        if record {
            let order: Vec<_> = area.checks.iter().map(|check| check.name.as_str()).collect();
            recorded = recorded.updated(found.clone(), &order);
            let path = twin::recording(&scripts(), &area.name);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            std::fs::write(path, recorded.to_string())?;
        }
        outcomes.push(compare(&area, &recorded, &found, false));
    }
    host::note(&table(&outcomes));
    let different: Vec<_> = outcomes.into_iter().flat_map(|outcome| outcome.different).collect();
    assert!(
        different.is_empty(),
        "{} checks are not as recorded; if the scripts or the version of Kubernetes have changed, \
         run `cargo xtask twin --record` and look at what it changes:\n{}",
        different.len(),
        different.join("\n")
    );
    Ok(())
}

fn scripts() -> PathBuf {
    host::repo().join("scenarios/api")
}
