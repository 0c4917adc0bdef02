//! The embedded API answers as a real API server does, to every step of the scripts.
//!
//! What the real one answers is recorded; `tests/e2e` checks that the recordings are true.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use karpenter_apiserver::testing::conformance::compare::{compare, table};
use karpenter_apiserver::testing::conformance::{self, Body, BoxError, Target};
use karpenter_apiserver::testing::environment::TestEnvironment;
use karpenter_apiserver::{Api, ApiOptions, Service};
use tower::ServiceExt as _;

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/api")
}

#[test]
fn checks_and_recordings_correspond() {
    for area in conformance::load_areas(&scripts()) {
        let recorded = conformance::load_recording(&scripts(), &area.name);
        let recorded: Vec<_> = recorded.checks().collect();
        let checks: Vec<_> = area.checks.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(recorded, checks, "{}: run `cargo xtask conformance --record`", area.name);
    }
}

/// The embedded API, in this process.
struct Embedded(Service);

impl Target for Embedded {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, BoxError> {
        let answer = self.0.clone().oneshot(request.map(Full::new)).await?;
        Ok(answer.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
    }

    async fn pause(&self) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_embedded_api_matches_the_recordings() {
    let only = std::env::var_os("CONFORMANCE_ONLY").map(|only| only.to_string_lossy().into_owned());
    let mut outcomes = Vec::new();
    for area in conformance::load_areas(&scripts()) {
        let options = ApiOptions { service_accounts: false };
        let api = Api::with_options(Arc::new(TestEnvironment::new()), options);
        let wanted = |check: &str| {
            only.as_ref().is_none_or(|only| format!("{}: {check}", area.name).contains(only))
        };
        let found = conformance::run(&area, &Embedded(api.service()), 1, wanted).await;
        let recorded = conformance::load_recording(&scripts(), &area.name);
        outcomes.push(compare(&area, &recorded, &found, true));
    }
    println!("{}", table(&outcomes));
    let different: Vec<_> = outcomes.into_iter().flat_map(|outcome| outcome.differences).collect();
    assert!(different.is_empty(), "{} differ\n{}", different.len(), different.join("\n"));
}
