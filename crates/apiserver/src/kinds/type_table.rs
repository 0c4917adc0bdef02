//! Reads the types of the built-in kinds from `shapes.txt`.
//!
//! The table is made by `tests/e2e/tools/kubernetes/shapes` from the Go types and the OpenAPI of
//! one Kubernetes version; `cargo xtask shapes` writes it. One line per type, then one
//! per field, all sorted:
//!
//! ```text
//! io.k8s.api.core.v1.Container v1.Container          name, name in Go, `atomic`
//!  env [io.k8s.api.core.v1.EnvVar] omitempty keys:name merge:name
//!  │   └ [items], {values of a map}, *pointer; `=` a name of its own in Go
//!  └ omitempty, omitzero; via:Embedded.Struct; required; set, keys:a,b (list types), atomic,
//!    granular; merge:key, retainkeys, replace (patch strategies); #2.5 (number in protobuf, after
//!    those of embedded structs); default:json (to the end of the line)
//! ```

use std::collections::BTreeMap;

use crate::type_model::{
    Field, GoField, GoType, ListKind, ObjectType, OmitRule, PatchStrategy, Scalar, Type, TypeId,
    Types,
};

const TYPE_TABLE: &str = include_str!("shapes.txt");

/// Reads all types of the table.
pub(super) fn read_types() -> Types {
    let mut reader = TypeReader::default();
    for line in TYPE_TABLE.lines().filter(|line| !line.starts_with(' ')) {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let id = reader.types.add(Type::Any); // defined below: types contain each other
        reader.types.set_name(name, id);
        reader.go_names.insert(id, words.next().unwrap_or_default());
    }
    let mut lines = TYPE_TABLE.lines().peekable();
    while let Some(head) = lines.next() {
        let mut words = head.split(' ');
        let name = words.next().unwrap_or_default();
        let go_name = words.next().unwrap_or_default();
        let mut object =
            ObjectType { atomic: words.next() == Some("atomic"), ..ObjectType::default() };
        let mut go = GoType { name: go_name.into(), ..GoType::default() };
        while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
            let (name, field, go_field, numbers) = reader.read_field(line);
            if !numbers.is_empty() {
                go.numbers.insert(numbers.into(), name.into());
            }
            object.fields.insert(name.into(), field);
            go.fields.insert(name.into(), go_field);
        }
        let id = reader.types.find_by_name(name).expect("every head has been named above");
        reader.types.define(id, Type::Object(object));
        reader.types.set_go_type(id, go);
    }
    reader.types.define_granular();
    reader.types
}

#[derive(Default)]
struct TypeReader {
    types: Types,
    /// What the types with a line of their own are called in Go.
    go_names: BTreeMap<TypeId, &'static str>,
    /// The types read so far, by their text.
    ///
    /// The same text is the same type.
    types_by_text: BTreeMap<String, (TypeId, String)>,
}

/// How a list or map is owned.
#[derive(Default)]
struct Ownership<'a> {
    set: bool,
    keys: Option<&'a str>,
    atomic: bool,
    granular: bool,
}

impl TypeReader {
    fn read_field(&mut self, line: &'static str) -> (&'static str, Field, GoField, Vec<u32>) {
        let (line, default) = match line.split_once(" default:") {
            Some((line, default)) => (line, serde_json::from_str(default).ok()),
            None => (line, None),
        };
        let mut words = line.trim_start().split(' ');
        let name = words.next().unwrap_or_default();
        let shape = words.next().unwrap_or_default();
        let mut go = GoField::default();
        let mut own = Ownership::default();
        let mut strategy = PatchStrategy::default();
        let mut required = false;
        let mut numbers = Vec::new();
        for word in words {
            if let Some(path) = word.strip_prefix('#') {
                numbers = path.split('.').filter_map(|number| number.parse().ok()).collect();
                continue;
            }
            match word.split_once(':').unwrap_or((word, "")) {
                ("omitempty", _) if go.omit == OmitRule::Never => go.omit = OmitRule::Empty,
                ("omitzero", _) => go.omit = OmitRule::Zero,
                ("via", path) => go.embedded_structs = path.split('.').map(Into::into).collect(),
                ("required", _) => required = true,
                ("set", _) => own.set = true,
                ("keys", keys) => own.keys = Some(keys),
                ("atomic", _) => own.atomic = true,
                ("granular", _) => own.granular = true,
                ("merge", key) => strategy.merge_key = Some(key.into()),
                ("retainkeys", _) => strategy.retain_keys = true,
                ("replace", _) => strategy.replaces = true,
                _ => {}
            }
        }
        let plain = shape.strip_prefix('*').unwrap_or(shape);
        go.pointer = plain.len() < shape.len();
        let shape = self.read_type(plain, &own).0;
        (name, Field { type_id: shape, required, default, strategy }, go, numbers)
    }

    /// Reads a type from its text in the table; returns its Go name, too.
    fn read_type(&mut self, text: &str, own: &Ownership<'_>) -> (TypeId, String) {
        let keys = own.keys.unwrap_or_default();
        let key = format!("{text} {} {keys} {} {}", own.set, own.atomic, own.granular);
        if let Some(known) = self.types_by_text.get(&key) {
            return known.clone();
        }
        let (shape, name) = split_name(text);
        let inner = |open, close| {
            let inner = shape.strip_prefix(open)?.strip_suffix(close)?;
            Some(inner.strip_prefix('*').unwrap_or(inner))
        };
        let plain = Ownership::default();
        let (found, go_name) = if let Some(items) = inner('[', ']') {
            let (items, go) = self.read_type(items, &plain);
            let kind = match own.keys {
                Some(keys) => ListKind::Map(keys.split(',').map(Into::into).collect()),
                None if own.set => ListKind::Set,
                None => ListKind::Atomic,
            };
            (Type::List { items, kind }, format!("[]{go}"))
        } else if let Some(values) = inner('{', '}') {
            let (values, go) = self.read_type(values, &plain);
            (Type::Map { values, atomic: own.atomic }, format!("map[string]{go}"))
        } else if let Some(id) = self.types.find_by_name(shape) {
            let go = self.go_names.get(&id).copied().unwrap_or_default();
            let id = if own.granular { self.types.add_granular(id) } else { id };
            return self.cache_type(key, id, go.to_owned());
        } else {
            let go = if shape == "bytes" { "[]uint8" } else { shape };
            (scalar_type(shape), go.to_owned())
        };
        let go_name = name.map_or(go_name, str::to_owned);
        let id = self.types.add(found);
        self.types.set_go_type(id, GoType { name: go_name.as_str().into(), ..GoType::default() });
        self.cache_type(key, id, go_name)
    }

    fn cache_type(&mut self, key: String, id: TypeId, go: String) -> (TypeId, String) {
        self.types_by_text.insert(key, (id, go.clone()));
        (id, go)
    }
}

/// Splits off the name that a type has of its own in Go: `string=v1.Protocol`. That of a map may
/// have brackets itself: `{string}=map[v1.Kind]string`.
fn split_name(text: &str) -> (&str, Option<&str>) {
    let close = match text.as_bytes().first() {
        Some(b'[') => closing_bracket(text, '[', ']'),
        Some(b'{') => closing_bracket(text, '{', '}'),
        _ => 0,
    };
    match text[close..].find('=') {
        Some(at) => (&text[..close + at], Some(&text[close + at + 1..])),
        None => (text, None),
    }
}

/// Returns the position of the bracket that closes the first one.
fn closing_bracket(text: &str, open: char, close: char) -> usize {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at;
            }
        }
    }
    text.len()
}

fn scalar_type(name: &str) -> Type {
    Type::Scalar(match name {
        "string" => Scalar::Text,
        "bool" => Scalar::Boolean,
        "int32" | "int64" => Scalar::Integer,
        "float64" => Scalar::Number,
        "bytes" => Scalar::Bytes,
        "time" => Scalar::Time,
        "microtime" => Scalar::MicroTime,
        "quantity" => Scalar::Quantity,
        "intorstring" => Scalar::IntOrString,
        _ => return Type::Any,
    })
}
