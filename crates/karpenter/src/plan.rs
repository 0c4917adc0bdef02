//! `karpenter plan` between its command line and its output: reads a cluster from manifests or live
//! ([`cluster_objects`], [`live`]), adds the pods that controllers would create ([`expand`]),
//! decides ([`decision`], [`consolidate`]), and reports ([`report`], [`table`]).

mod aws_types;
pub(crate) mod cluster_objects;
pub(crate) mod consolidate;
pub(crate) mod decision;
mod decode;
mod devices;
pub(crate) mod expand;
mod file_objects;
pub(crate) mod grid;
mod hints;
mod ingest_remark;
pub(crate) mod input_warnings;
mod instance_types;
pub(crate) mod live;
pub(crate) mod pool_types;
pub(crate) mod progress;
pub(crate) mod provider;
pub(crate) mod rejection_text;
pub(crate) mod report;
pub(crate) mod table;
mod unusable_pool;
mod violations;

pub(crate) use unusable_pool::has_offering;
