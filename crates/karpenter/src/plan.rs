//! `karpenter plan` between its command line and its output: reading a cluster from manifests or
//! live ([`gather`], [`live`]), filling in what a folder of manifests leaves to controllers
//! ([`expand`]), deciding ([`decide`], [`consolidate`]), and telling ([`report`], [`table`]).

pub(crate) mod consolidate;
pub(crate) mod decide;
mod decode;
mod devices;
pub(crate) mod expand;
pub(crate) mod gather;
mod grid;
mod hints;
pub(crate) mod live;
mod marked;
pub(crate) mod overlooked;
pub(crate) mod progress;
pub(crate) mod provider;
pub(crate) mod report;
pub(crate) mod table;
mod unusable;
mod words;
