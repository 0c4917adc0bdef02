//! The columns that a CustomResourceDefinition defines (`additionalPrinterColumns`).

use karpenter_cel::go_text;
use serde_json::{Value, json};

use super::columns::{self, AGE, NAME};
use super::json_path::JsonPath;
use super::row::Row;

/// The columns of one version of a custom kind.
pub(super) struct CustomColumns {
    columns: Vec<CustomColumn>,
}

struct CustomColumn {
    definition: Value,
    kind: String,
    /// `None` when it cannot be read: the column stays empty.
    path: Option<JsonPath>,
}

impl CustomColumns {
    pub(super) fn new(definitions: &[Value]) -> Self {
        if definitions.is_empty() {
            let mut age = columns::to_value(&[AGE])[0].take();
            age["type"] = "date".into();
            let path = JsonPath::parse(".metadata.creationTimestamp");
            return Self {
                columns: vec![CustomColumn { definition: age, kind: "date".to_owned(), path }],
            };
        }
        Self { columns: definitions.iter().map(CustomColumn::new).collect() }
    }

    pub(super) fn definitions(&self) -> Value {
        let mut all = columns::to_value(&[NAME]);
        if let Some(all) = all.as_array_mut() {
            all.extend(self.columns.iter().map(|column| column.definition.clone()));
        }
        all
    }

    pub(super) fn cells(&self, row: Row<'_>) -> Vec<Value> {
        let cells = self.columns.iter().map(|column| column.cell(row));
        std::iter::once(row.name()).chain(cells).collect()
    }
}

impl CustomColumn {
    fn new(definition: &Value) -> Self {
        let text = |field: &str| definition[field].as_str().unwrap_or_default();
        let path = text("jsonPath");
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            description => description.to_owned(),
        };
        Self {
            definition: json!({
                "name": text("name"),
                "type": text("type"),
                "format": text("format"),
                "description": description,
                "priority": definition["priority"].as_i64().unwrap_or_default(),
            }),
            kind: text("type").to_owned(),
            path: JsonPath::parse(path),
        }
    }

    fn cell(&self, row: Row<'_>) -> Value {
        let found = self.path.as_ref().and_then(|path| path.find(row.object)).unwrap_or_default();
        let Some(value) = found.first() else {
            return Value::Null;
        };
        match self.kind.as_str() {
            "string" => format_value(value).into(),
            "integer" => match value.as_i64() {
                Some(number) => number.into(),
                None => value.as_f64().map_or(Value::Null, truncate_to_integer),
            },
            "number" => value.as_f64().map_or(Value::Null, Value::from),
            "boolean" => value.as_bool().map_or(Value::Null, Value::from),
            "date" => value.as_str().map_or(Value::Null, |time| format_date(row, time)),
            _ => Value::Null,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "Go cuts a float to an integer here, too")]
fn truncate_to_integer(number: f64) -> Value {
    (number as i64).into()
}

fn format_date(row: Row<'_>, time: &str) -> Value {
    let is_time = matches!(time, "" | "null") || time.parse::<jiff::Timestamp>().is_ok();
    if is_time { row.age_since_time(time).into() } else { "<invalid>".into() }
}

/// Formats a value: lists and objects as JSON, the rest as Go does.
fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Number(number) => go_text::number(number),
        Value::Array(_) | Value::Object(_) => go_text::json(value),
    }
}
