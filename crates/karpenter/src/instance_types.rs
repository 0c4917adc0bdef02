//! `karpenter instance-types` between its command line and its output: reads requirements
//! ([`requirement_text`]), applies them one after the other ([`selection`]), and reports the
//! remaining types as JSON ([`report`]) or as text ([`table`]).

pub(crate) mod report;
pub(crate) mod requirement_text;
pub(crate) mod selection;
pub(crate) mod table;
