//! The embedded API server: the state behind one lock, and the way of a request to its response.
//!
//! ```text
//! Request ─▶ Target ─▶ ServedResource ─▶ verb ─▶ State ─▶ controllers ─▶ ApiResponse ─▶ bytes
//! ```
//!
//! Every request but a watch runs to its end under the lock, together with the controllers that
//! Kubernetes runs separately (garbage collection, namespaces, CustomResourceDefinitions): see
//! [`crate::builtin_controllers`]. So a response never shows half a change, and the same requests
//! give the same objects.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::environment::{self, Environment};
use crate::kinds::{AdmissionContext, ObjectReader, Subresource};
use crate::registry::{Registry, ServedResource};
use crate::request::{Projection, Request, Target};
use crate::status::StatusError;
use crate::store::{ObjectKey, ResourceId, Store, StoredObject};
use crate::verbs::{list::ObjectList, watch::Watch};
use crate::{builtin_controllers, discovery, openapi, subresources, verbs};

/// An embedded Kubernetes API. Clones are the same API.
#[derive(Debug, Clone)]
pub struct Api {
    shared: Arc<SharedState>,
}

/// Optional parts of the API server that a caller switches on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiOptions {
    /// Every namespace has its service accounts, and pods get a token of theirs.
    pub service_accounts: bool,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self { service_accounts: true }
    }
}

#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) environment: Arc<dyn Environment>,
    state: Mutex<State>,
}

impl SharedState {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in one request leaves a state that is whole: writes are single steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state that requests read and change.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) environment: Arc<dyn Environment>,
    service_accounts: bool,
    /// The object changes of this request that built-in controllers still have to process.
    pub(crate) controller_queue: builtin_controllers::ControllerQueue,
    /// The writes of Events, in the order in which they expire.
    pub(crate) event_ttl: builtin_controllers::EventTtlQueue,
}

impl State {
    pub(crate) fn now(&self) -> String {
        environment::rfc3339(self.environment.now())
    }

    pub(crate) fn has_service_accounts(&self) -> bool {
        self.service_accounts
    }

    /// Returns what admission may read besides the object.
    pub(crate) fn admission_context(&self) -> AdmissionContext<'_> {
        AdmissionContext {
            objects: self,
            environment: &*self.environment,
            service_accounts: self.service_accounts,
        }
    }

    pub(crate) fn put(
        &mut self,
        served: &ServedResource,
        key: &ObjectKey,
        mut object: Value,
    ) -> Arc<StoredObject> {
        served.convert_to_storage(&mut object);
        let fields = served.selectable_values(&object);
        strip_type_meta(&mut object);
        let existed = self.store.get(&served.id, key).is_some();
        let stored = self.store.put(&served.id, key, object, fields);
        self.controller_queue.enqueue_stored(&served.id, key, &stored, existed);
        self.event_ttl.record_write(&served.id, key, stored.version, self.environment.now());
        stored
    }

    pub(crate) fn remove(&mut self, id: &ResourceId, key: &ObjectKey) -> Option<Arc<StoredObject>> {
        let gone = self.store.remove(id, key)?;
        self.controller_queue.enqueue_removed(id, key, &gone);
        Some(gone)
    }

    /// Returns the object with apiVersion and kind, in the form that writes change.
    pub(crate) fn object(served: &ServedResource, stored: &StoredObject) -> Value {
        let mut object = stored.to_value();
        served.convert_from_storage(&mut object);
        object["apiVersion"] = served.api_version().into();
        object["kind"] = (*served.resource.kind).into();
        object
    }
}

impl ObjectReader for State {
    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let id = ResourceId::new(group, plural);
        self.store.get(&id, &ObjectKey::new(namespace, name)).map(|stored| stored.to_value())
    }

    fn labels(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Vec<(String, String)>> {
        let stored =
            self.store.get(&ResourceId::new(group, plural), &ObjectKey::new(namespace, name))?;
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Some(stored.labels.iter().map(owned).collect())
    }

    fn list(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value> {
        let id = ResourceId::new(group, plural);
        let table = self.store.tables().find(|(other, _)| **other == id);
        let objects = table.into_iter().flat_map(|(_, table)| table.range(namespace, None));
        objects.map(|(_, stored)| stored.to_value()).collect()
    }
}

/// A request for one served resource or for one of its subresources.
#[derive(Debug)]
pub(crate) struct ResourceRequest {
    pub(crate) request: Request,
    pub(crate) target: Target,
    pub(crate) served: Arc<ServedResource>,
    pub(crate) subresource: Option<Subresource>,
    pub(crate) projection: Projection,
}

impl ResourceRequest {
    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.target.namespace, &self.target.name)
    }

    /// Returns the object that the path names, or a `NotFound` error.
    pub(crate) fn stored_object(&self, state: &State) -> Result<Arc<StoredObject>, StatusError> {
        let stored = state.store.get(&self.served.id, &self.key()).cloned();
        stored.ok_or_else(|| StatusError::not_found(self.served.status_details(&self.target.name)))
    }
}

/// The response to a request: status code, body and warnings.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) code: StatusCode,
    pub(crate) body: Body,
    /// For the header `Warning`.
    pub(crate) warnings: Vec<String>,
}

#[derive(Debug)]
pub(crate) enum Body {
    /// An object as it is stored.
    Stored(Arc<ServedResource>, Arc<StoredObject>),
    /// An object that is not stored: of a dry run.
    Object(Arc<ServedResource>, Value),
    /// A value that is no object of the resource: a `Status`, a `Scale`, discovery.
    Value(Value),
    /// Anything with a media type of its own.
    Bytes(&'static str, Bytes),
    List(ObjectList),
    Watch(Box<Watch>),
}

impl ApiResponse {
    pub(crate) fn new(code: StatusCode, body: Body) -> Self {
        Self { code, body, warnings: Vec::new() }
    }

    /// Puts `warnings` in front of those of a response or of an error.
    pub(crate) fn with_warnings(
        answer: Result<Self, StatusError>,
        warnings: Vec<String>,
    ) -> Result<Self, StatusError> {
        match answer {
            Ok(mut answer) => {
                answer.warnings.splice(0..0, warnings);
                Ok(answer)
            }
            Err(failure) => Err(failure.with_warnings(warnings)),
        }
    }

    pub(crate) fn ok(value: Value) -> Self {
        Self::new(StatusCode::OK, Body::Value(value))
    }
}

impl Api {
    /// An API with the namespaces and objects that every cluster has.
    pub fn new(environment: Arc<dyn Environment>) -> Self {
        Self::with_options(environment, ApiOptions::default())
    }

    pub fn with_options(environment: Arc<dyn Environment>, options: ApiOptions) -> Self {
        let mut state = State {
            store: Store::new(),
            registry: Registry::new(),
            environment: environment.clone(),
            service_accounts: options.service_accounts,
            controller_queue: builtin_controllers::ControllerQueue::default(),
            event_ttl: builtin_controllers::EventTtlQueue::default(),
        };
        builtin_controllers::create_cluster_defaults(&mut state);
        Self { shared: Arc::new(SharedState { environment, state: Mutex::new(state) }) }
    }

    /// Returns the response to a request.
    pub(crate) fn handle(&self, request: Request) -> Result<ApiResponse, StatusError> {
        if let Some(answer) = self.handle_non_resource(&request) {
            return answer;
        }
        let show = Projection::from_request(&request)?;
        self.handle_resource(request, show)
    }

    #[cfg(test)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.shared.environment.now()
    }

    /// Returns the response to `/`: the paths that the server serves.
    fn root_paths(&self) -> Value {
        let state = self.shared.lock();
        let mut paths = BTreeSet::from(
            [
                "/api",
                "/apis",
                "/healthz",
                "/livez",
                "/openapi/v2",
                "/openapi/v3",
                "/readyz",
                "/version",
            ]
            .map(str::to_owned),
        );
        for served in state.registry.iter() {
            let group = &*served.resource.group;
            if group.is_empty() {
                paths.insert(format!("/api/{}", served.resource.version));
            } else {
                paths.insert(format!("/apis/{group}"));
                paths.insert(format!("/apis/{}", served.api_version()));
            }
        }
        json!({"paths": paths})
    }

    /// Handles paths outside of resources: health, version, discovery, OpenAPI.
    fn handle_non_resource(&self, request: &Request) -> Option<Result<ApiResponse, StatusError>> {
        if request.method != Method::GET {
            return None;
        }
        match request.path.trim_end_matches('/') {
            "/healthz" | "/livez" | "/readyz" => Some(Ok(ApiResponse::new(
                StatusCode::OK,
                Body::Bytes("text/plain; charset=utf-8", Bytes::from_static(b"ok")),
            ))),
            "" => Some(Ok(ApiResponse::ok(self.root_paths()))),
            "/version" => Some(Ok(ApiResponse::ok(discovery::version()))),
            path if path.starts_with("/openapi") => {
                // Documents are large: they are made without the lock.
                let registry = self.shared.lock().registry.clone();
                Some(openapi::handle(&registry, path, request.header(http::header::ACCEPT)))
            }
            path => {
                let state = self.shared.lock();
                discovery::handle(&state.registry, path, request.header(http::header::ACCEPT))
            }
        }
    }

    /// Handles `bindings`: binds a pod to a node; no Binding object is stored.
    fn handle_bindings(
        state: &mut State,
        request: Request,
        target: Target,
        projection: Projection,
    ) -> Result<ApiResponse, StatusError> {
        if request.method != Method::POST {
            return Err(StatusError::method_not_allowed());
        }
        let served = state.registry.get("", "v1", "pods").ok_or_else(StatusError::no_such_path)?;
        let subresource = Some(Subresource::Binding);
        let call = ResourceRequest { request, target, served, subresource, projection };
        let answer = subresources::binding::create(state, call);
        builtin_controllers::process_queue(state);
        answer
    }

    fn handle_resource(
        &self,
        request: Request,
        projection: Projection,
    ) -> Result<ApiResponse, StatusError> {
        let target = Target::parse(&request.path).ok_or_else(StatusError::page_not_found)?;
        let mut state = self.shared.lock();
        builtin_controllers::expire_events(&mut state);
        if target.is_bindings() {
            return Self::handle_bindings(&mut state, request, target, projection);
        }
        // The server of custom resources answers an unknown path with plain text, without a
        // `Status`.
        let nowhere = if state.registry.is_built_in_group(&target.group) {
            StatusError::no_such_path
        } else {
            StatusError::page_not_found
        };
        let served = state
            .registry
            .get(&target.group, &target.version, &target.resource)
            .ok_or_else(nowhere)?;
        subresources::connect::reject_connect(&state, &served, &target)?;
        let subresource = subresources::resolve(&served, &target.subresource)?;
        if !served.resource.namespaced && !target.namespace.is_empty() {
            return Err(nowhere());
        }
        target.check_name()?;
        let call = ResourceRequest { request, target, served, subresource, projection };
        let answer = verbs::dispatch(&self.shared, &mut state, &call);
        builtin_controllers::process_queue(&mut state);
        answer
    }
}

/// Objects are stored without their kind, which the resource says already.
pub(crate) fn strip_type_meta(object: &mut Value) {
    if let Some(object) = object.as_object_mut() {
        object.shift_remove("apiVersion");
        object.shift_remove("kind");
    }
}
