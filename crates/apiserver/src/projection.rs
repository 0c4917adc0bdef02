//! Projects objects into the form that the client requests: full, table, or metadata only.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::{State, strip_type_meta};
use crate::registry::ServedResource;
use crate::request::Projection;
use crate::store::StoredObject;
use crate::table::{self, IncludeObject};
use crate::verbs::list::ObjectList;

/// Returns a stored object as JSON, with apiVersion and kind.
pub(crate) fn full_object(served: &ServedResource, stored: &StoredObject) -> Bytes {
    if served.converts_for_storage() {
        return State::object(served, stored).to_string().into();
    }
    let length = stored.text.len();
    let mut bytes = Vec::with_capacity(length + served.type_meta.len() + 2);
    bytes.push(b'{');
    bytes.extend_from_slice(served.type_meta.as_bytes());
    if length > 2 {
        bytes.push(b',');
    }
    // Without the brace that it begins with.
    let mut skipped = 1;
    for piece in stored.text.pieces() {
        let rest = piece.get(skipped..).unwrap_or_default();
        skipped -= skipped.min(piece.len());
        bytes.extend_from_slice(rest);
    }
    bytes.into()
}

pub(crate) fn project_stored(
    served: &ServedResource,
    show: Projection,
    stored: &StoredObject,
    now: Timestamp,
) -> Bytes {
    match show {
        Projection::Full => full_object(served, stored),
        Projection::Table(_) | Projection::Metadata | Projection::MetadataList => {
            project_value(served, show, &State::object(served, stored), now).to_string().into()
        }
    }
}

/// Returns the projection of an object that is not stored; see [`project_stored`].
pub(crate) fn project_value(
    served: &ServedResource,
    show: Projection,
    object: &Value,
    now: Timestamp,
) -> Value {
    match show {
        Projection::Full => object.clone(),
        Projection::Table(include) => {
            let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
            table::to_table(served, std::slice::from_ref(object), metadata, true, include, now)
        }
        Projection::Metadata | Projection::MetadataList => partial_object_metadata(object),
    }
}

/// Returns the parts of a list, each built when it is read. So a slow client holds the stored
/// objects and no projections of them.
pub(crate) fn project_list(
    list: ObjectList,
    show: Projection,
    now: Timestamp,
) -> Box<dyn Iterator<Item = Bytes> + Send> {
    match show {
        Projection::Full => Box::new(full_list(list)),
        Projection::Table(include) => Box::new(table_list(list, include, now)),
        Projection::Metadata | Projection::MetadataList => {
            let head = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": list.metadata,
            });
            let items = list.items.into_iter();
            let items =
                items.map(|stored| partial_object_metadata(&stored.to_value()).to_string().into());
            Box::new(with_items(&head, "items", items))
        }
    }
}

fn full_list(list: ObjectList) -> impl Iterator<Item = Bytes> {
    let served = list.served;
    let mut metadata = list.metadata;
    if served.custom().is_some() && metadata.get("continue").is_none() {
        metadata["continue"] = "".into();
    }
    let head = json!({
        "kind": &*served.resource.list_kind,
        "apiVersion": served.api_version(),
        "metadata": metadata,
    });
    // Items of built-in kinds come without their kind, those of custom ones with it.
    let items = list.items.into_iter().map(move |stored| match served.custom() {
        None if served.converts_for_storage() => without_type_meta(&served, &stored),
        None => stored.text.to_bytes(),
        Some(_) => full_object(&served, &stored),
    });
    with_items(&head, "items", items)
}

fn table_list(
    list: ObjectList,
    include: IncludeObject,
    now: Timestamp,
) -> impl Iterator<Item = Bytes> {
    let served = list.served;
    let mut head = table::to_table(&served, &[], list.metadata, true, include, now);
    let mut parts = Vec::new();
    if list.items.is_empty() {
        parts.push(Bytes::from(head.to_string()));
    }
    crate::registry::remove_field(&mut head, "rows");
    let has_rows = !list.items.is_empty();
    let rows = list.items.into_iter().map(move |stored| {
        let object = State::object(&served, &stored);
        let table = table::to_table(&served, &[object], Value::Null, false, include, now);
        table["rows"][0].to_string().into()
    });
    let filled = has_rows.then(|| with_items(&head, "rows", rows));
    parts.into_iter().chain(filled.into_iter().flatten())
}

/// `head` with one more field, which holds all the items.
fn with_items<I: Iterator<Item = Bytes>>(
    head: &Value,
    field: &str,
    items: I,
) -> impl Iterator<Item = Bytes> + use<I> {
    let head = head.to_string();
    let start = format!("{},\"{field}\":[", head.strip_suffix('}').unwrap_or(&head));
    let separated = items.enumerate().flat_map(|(index, item)| {
        let comma = (index > 0).then(|| Bytes::from_static(b","));
        comma.into_iter().chain([item])
    });
    std::iter::once(Bytes::from(start)).chain(separated).chain([Bytes::from_static(b"]}")])
}

fn without_type_meta(served: &ServedResource, stored: &StoredObject) -> Bytes {
    let mut object = State::object(served, stored);
    strip_type_meta(&mut object);
    object.to_string().into()
}

/// Returns the projection of the object of a watch event.
pub(crate) fn project_event_object(
    served: &ServedResource,
    show: Projection,
    stored: &StoredObject,
    headed: &mut bool,
    now: Timestamp,
) -> Bytes {
    match show {
        Projection::Table(include) => {
            let object = State::object(served, stored);
            let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
            let table = table::to_table(served, &[object], metadata, !*headed, include, now);
            *headed = true;
            table.to_string().into()
        }
        Projection::Full | Projection::Metadata | Projection::MetadataList => {
            project_stored(served, show, stored, now)
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
