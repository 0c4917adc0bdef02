//! Which built-in kind is shown how.

use serde_json::Value;

use super::columns::Column;
use super::row::Row;
use super::{core, nodes, other_kinds, pods, storage, workloads};

#[derive(Debug)]
pub(super) struct Printer {
    /// Empty for the core group.
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    pub(super) columns: &'static [Column],
    /// One value per column.
    pub(super) cells: fn(Row<'_>) -> Vec<Value>,
    /// What the row says of itself beyond its cells.
    pub(super) conditions: Option<fn(Row<'_>) -> Option<Value>>,
}

pub(super) const fn printer(
    group: &'static str,
    plural: &'static str,
    columns: &'static [Column],
    cells: fn(Row<'_>) -> Vec<Value>,
) -> Printer {
    Printer { group, plural, columns, cells, conditions: None }
}

pub(super) fn find_printer(group: &str, plural: &str) -> Option<&'static Printer> {
    all_printers().find(|printer| printer.group == group && printer.plural == plural)
}

pub(super) fn all_printers() -> impl Iterator<Item = &'static Printer> {
    [
        pods::PRINTERS,
        nodes::PRINTERS,
        core::PRINTERS,
        storage::PRINTERS,
        workloads::PRINTERS,
        other_kinds::PRINTERS,
    ]
    .into_iter()
    .flatten()
}
