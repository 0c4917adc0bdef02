//! Runs the conformance scripts of the embedded API on a real API server.
//!
//! The same scripts run on the embedded API in `crates/apiserver/tests/conformance.rs`, against the
//! recordings that this test compares with, or, with `cargo xtask conformance --record`, writes.

use std::path::{Path, PathBuf};

use anyhow::Result;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use karpenter_apiserver::testing::conformance::compare::{compare, table};
use karpenter_apiserver::testing::conformance::{self, Body, BoxError, Target};
use karpenter_e2e::{ControlPlane, Parts, wait};
use kube::Client;
use xtask::host;

/// Checks under way at once; each has its own namespace.
const CONCURRENT_CHECKS: usize = 8;

struct RealApiServer(Client);

impl Target for RealApiServer {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        let response = self.0.send(request.map(kube::client::Body::from)).await?;
        Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
    }

    async fn pause(&self) {
        wait::pause().await;
    }
}

#[tokio::test]
async fn the_recordings_match_a_real_api_server() -> Result<()> {
    let plane = ControlPlane::start_with(Parts::API_AND_GARBAGE_COLLECTION).await?;
    let target = RealApiServer(plane.client_without_retries()?);
    let only = host::var("CONFORMANCE_ONLY").map(|only| only.to_string_lossy().into_owned());
    let record = host::var("CONFORMANCE_RECORD").is_some();
    let mut outcomes = Vec::new();
    for area in conformance::load_areas(&script_folder()) {
        let wanted = |check: &str| {
            only.as_ref().is_none_or(|only| format!("{}: {check}", area.name).contains(only))
        };
        let found = conformance::run(&area, &target, CONCURRENT_CHECKS, wanted).await;
        if found.checks().next().is_none() {
            continue;
        }
        let mut recorded = conformance::load_recording(&script_folder(), &area.name);
        if record {
            let order: Vec<_> = area.checks.iter().map(|check| check.name.as_str()).collect();
            recorded = recorded.updated(found.clone(), &order);
            let path = conformance::recording_path(&script_folder(), &area.name);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            std::fs::write(path, recorded.to_string())?;
        }
        outcomes.push(compare(&area, &recorded, &found, false));
    }
    host::note(&table(&outcomes));
    let different: Vec<_> = outcomes.into_iter().flat_map(|outcome| outcome.differences).collect();
    assert!(
        different.is_empty(),
        "{} checks are not as recorded; if the scripts or the version of Kubernetes have changed, \
         run `cargo xtask conformance --record` and look at what it changes:\n{}",
        different.len(),
        different.join("\n")
    );
    Ok(())
}

fn script_folder() -> PathBuf {
    host::repo().join("scenarios/api")
}
