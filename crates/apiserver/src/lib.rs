//! An embedded Kubernetes API, usable on its own.
//!
//! Knows nothing of Karpenter. So far it holds [`admission`]: what an API server does with an
//! object of a custom kind between reading and storing it (pruning, defaults, schema and CEL
//! validation), with the messages that the real one gives, and the CEL of device selectors.

pub mod admission;
mod api;
mod discovery;
pub mod environment;
pub mod kinds;
mod label_selector;
pub mod managed;
mod openapi;
pub mod patch;
mod place;
mod registry;
mod request;
mod selectors;
mod serve;
mod service;
pub mod shape;
mod show;
pub mod status;
mod store;
mod subresources;
mod table;
#[cfg(feature = "testing")]
pub mod testing;
mod upkeep;
mod verbs;

pub use self::api::{Api, Options};
pub use self::serve::{ServeError, Server};
pub use self::service::{MAX_BODY_BYTES, ResponseBody, Service};
