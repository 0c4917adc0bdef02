//! An API server whose requests fail on demand.

use std::sync::{Arc, Mutex, PoisonError};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::Bench;
use crate::Context;

/// Requests that are to fail. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Mutex<Vec<Fault>>>);

#[derive(Debug)]
struct Fault {
    method: &'static str,
    path_end: &'static str,
    /// The answer; none if there is none, ever.
    code: Option<u16>,
}

impl Faults {
    /// The next request of that method to a path that ends so is answered with that code. Several
    /// of them wait for several requests.
    pub(crate) fn fail(&self, method: &'static str, path_end: &'static str, code: u16) {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        faults.push(Fault { method, path_end, code: Some(code) });
    }

    /// The next such request is never answered.
    pub(crate) fn hang(&self, method: &'static str, path_end: &'static str) {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        faults.push(Fault { method, path_end, code: None });
    }

    fn take(&self, request: &Request<Body>) -> Option<Fault> {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_hit = |fault: &Fault| {
            request.method() == fault.method && request.uri().path().ends_with(fault.path_end)
        };
        let position = faults.iter().position(is_hit)?;
        Some(faults.remove(position))
    }
}

impl Bench {
    /// The same process with a client whose requests can be made to fail. The cache is not
    /// concerned.
    pub(crate) fn with_faults(&self) -> (Context, Faults) {
        let faults = Faults::default();
        let (inner, rules) = (self.context.client.clone(), faults.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, fault) = (inner.clone(), rules.take(&request));
            async move {
                match fault.map(|fault| fault.code) {
                    Some(Some(code)) => Ok(failure(code)),
                    Some(None) => std::future::pending().await,
                    None => inner.send(request).await,
                }
            }
        });
        let client = Client::new(service, "default");
        (Context { client, ..self.context.clone() }, faults)
    }
}

fn failure(code: u16) -> Response<Body> {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("made to fail with {code}"),
        "reason": "Test",
        "code": code,
    });
    let body = Body::from(status.to_string().into_bytes());
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(body).expect("a response")
}
