//! Runs a real Kubernetes control plane for tests: etcd and kube-apiserver, and optionally
//! kube-controller-manager and kube-scheduler, on loopback, stopped with the test process.
//!
//! ```text
//! test process ── ControlPlane ──┬── etcd ◄── kube-apiserver ◄── kube-controller-manager
//!      │   stdin pipe each       │                  ▲        ◄── kube-scheduler
//!      └─────────────────────────┘                  └── Client, kubectl, Objects
//! ```
//!
//! Most tests share one control plane per test binary ([`SharedControlPlane`]) and use object names
//! of their own. The programs are built by `xtask::tools` the first time.
//!
//! [`cluster`] has the controller on it: as a process of its own, with kubelets for the nodes that
//! it creates. The rest knows nothing of Karpenter: it starts the API, and tests bring CRDs and
//! objects.
//!
//! Invariant: everything listens on 127.0.0.1, and nothing outlives the test process, however
//! that ends (see [`component`]).
//!
//! Start reading in [`control_plane`].

pub mod audit;
pub mod cluster;
pub mod component;
pub mod control_plane;
pub mod controller;
mod credentials;
pub mod demo;
mod flags;
pub mod kubectl;
pub mod kubelets;
pub mod objects;
pub mod product;
pub mod proxy;
mod shared;
pub mod tenant;
pub mod wait;

pub use cluster::Cluster;
pub use control_plane::{ControlPlane, Parts};
pub use controller::Controller;
pub use objects::{ApiError, Objects, parse_manifest};
pub use shared::SharedControlPlane;
pub use tenant::TestTenant;
