//! The columns of a table.

use serde_json::{Value, json};

#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// An OpenAPI type.
    pub(super) kind: &'static str,
    pub(super) format: &'static str,
    /// Above zero: shown in wide output only.
    pub(super) priority: u8,
}

pub(super) const NAME: Column =
    Column { name: "Name", kind: "string", format: "name", priority: 0 };
pub(super) const AGE: Column = text("Age");

pub(super) const fn text(name: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 0 }
}

pub(super) const fn integer(name: &'static str) -> Column {
    Column { kind: "integer", ..text(name) }
}

pub(super) const fn boolean(name: &'static str) -> Column {
    Column { kind: "boolean", ..text(name) }
}

/// A column of wide output.
pub(super) const fn wide(name: &'static str) -> Column {
    text(name).wide()
}

impl Column {
    pub(super) const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    pub(super) const fn with_name(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }
}

pub(super) fn to_value(columns: &[Column]) -> Value {
    let column = |column: &Column| {
        json!({
            "name": column.name,
            "type": column.kind,
            "format": column.format,
            "description": "",
            "priority": column.priority,
        })
    };
    columns.iter().map(column).collect()
}
