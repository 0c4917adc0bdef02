//! Objects as rows and columns, the way `kubectl get` shows them (`meta.k8s.io/v1` `Table`).
//!
//! Built-in kinds have printers of their own ([`printer::find_printer`]), custom ones the columns
//! of their definition, and the rest a name and a time. The server always sends all columns; the
//! client leaves those with a priority out unless it is asked for wide output.
//!
//! Left out: what columns mean in words (`description`), except what definitions say themselves.

mod columns;
mod core;
mod custom_columns;
mod human_duration;
mod json_path;
mod nodes;
mod other_kinds;
mod pods;
mod printer;
mod row;
mod selector;
mod storage;
#[cfg(test)]
mod tests;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::columns::{AGE, Column, NAME};
use self::custom_columns::CustomColumns;
use self::printer::Printer;
use self::row::Row;
use crate::registry::ServedResource;
use crate::status::StatusError;

/// What a row carries besides its cells: the query parameter `includeObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    pub(crate) fn parse(text: &str) -> Result<Self, StatusError> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            "None" => Ok(Self::None),
            _ => Err(StatusError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {text:?}: \
                 must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Returns the table of these objects.
///
/// `metadata` is that of the list; `with_columns` is false for all but the first event of a watch.
pub(crate) fn to_table(
    served: &ServedResource,
    objects: &[Value],
    metadata: Value,
    with_columns: bool,
    include: IncludeObject,
    now: Timestamp,
) -> Value {
    let layout = TableLayout::for_resource(served);
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let row = Row { object, now };
            let mut shown = json!({"cells": layout.cells(row)});
            if let TableLayout::Printer(printer) = &layout
                && let Some(conditions) = printer.conditions.and_then(|conditions| conditions(row))
            {
                shown["conditions"] = conditions;
            }
            shown["object"] = row_object(served, object, include);
            shown
        })
        .collect();
    // Go's empty slice and nil differ on the wire.
    let is_nil = rows.is_empty() && matches!(layout, TableLayout::NameAndCreation);
    let columns = if with_columns { layout.columns() } else { Value::Null };
    assemble_table(metadata, columns, if is_nil { Value::Null } else { rows.into() })
}

/// Returns the table of a `Scale`, which is no resource of its own.
pub(crate) fn scale_to_table(scale: &Value, include: IncludeObject, now: Timestamp) -> Value {
    const COLUMNS: &[Column] =
        &[columns::text("Name"), columns::integer("Desired"), columns::integer("Available"), AGE];
    let row = Row { object: scale, now };
    let cells =
        json!([row.name(), row.number("spec.replicas"), row.number("status.replicas"), row.age(),]);
    let object = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial_object_metadata(scale),
        IncludeObject::Object => scale.clone(),
    };
    let metadata = json!({"resourceVersion": scale["metadata"]["resourceVersion"]});
    assemble_table(
        metadata,
        columns::to_value(COLUMNS),
        json!([{"cells": cells, "object": object}]),
    )
}

fn assemble_table(metadata: Value, columns: Value, rows: Value) -> Value {
    let mut table = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1"});
    table["metadata"] = metadata;
    table["columnDefinitions"] = columns;
    table["rows"] = rows;
    table
}

/// The columns of a kind: built in, from the CRD, or the default ones.
enum TableLayout {
    Printer(&'static Printer),
    Custom(CustomColumns),
    /// Only the name and the creation time.
    NameAndCreation,
}

impl TableLayout {
    fn for_resource(served: &ServedResource) -> Self {
        if served.custom().is_some() {
            return Self::Custom(CustomColumns::new(&served.printer_columns));
        }
        printer::find_printer(&served.resource.group, &served.resource.plural)
            .map_or(Self::NameAndCreation, Self::Printer)
    }

    fn columns(&self) -> Value {
        const NAME_AND_CREATION_COLUMNS: &[Column] =
            &[NAME, Column { kind: "date", ..AGE.with_name("Created At") }];
        match self {
            Self::Printer(printer) => columns::to_value(printer.columns),
            Self::Custom(columns) => columns.definitions(),
            Self::NameAndCreation => columns::to_value(NAME_AND_CREATION_COLUMNS),
        }
    }

    fn cells(&self, row: Row<'_>) -> Vec<Value> {
        match self {
            Self::Printer(printer) => (printer.cells)(row),
            Self::Custom(columns) => columns.cells(row),
            Self::NameAndCreation => {
                vec![row.name(), row.text("metadata.creationTimestamp").into()]
            }
        }
    }
}

fn row_object(served: &ServedResource, object: &Value, include: IncludeObject) -> Value {
    match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial_object_metadata(object),
        IncludeObject::Object => {
            let mut whole = json!({
                "kind": &*served.resource.kind,
                "apiVersion": served.api_version(),
            });
            if let (Some(whole), Some(object)) = (whole.as_object_mut(), object.as_object()) {
                for (field, value) in object {
                    whole.insert(field.clone(), value.clone());
                }
            }
            whole
        }
    }
}

fn partial_object_metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}
