//! An embedded Kubernetes API, usable on its own.
//!
//! Knows nothing of Karpenter. So far it holds [`admission`]: what an API server does with an
//! object of a custom kind between reading and storing it (pruning, defaults, schema and CEL
//! validation), with the messages that the real one gives.

pub mod admission;
mod api;
mod builtin_controllers;
mod discovery;
pub mod environment;
mod https_server;
mod impersonation;
pub mod kinds;
mod label_selector;
mod openapi;
pub mod patch;
mod path_stack;
mod projection;
mod registry;
mod request;
mod selectors;
pub mod server_side_apply;
mod service;
pub mod status;
mod store;
mod subresources;
mod table;
#[cfg(feature = "testing")]
pub mod testing;
pub mod type_model;
mod verbs;

pub use self::api::{Api, ApiOptions};
pub use self::https_server::{ServeError, Server};
pub use self::service::{MAX_BODY_BYTES, ResponseBody, Service};
