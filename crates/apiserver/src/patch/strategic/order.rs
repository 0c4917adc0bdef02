//! The order of merged lists: items of the patch in its order, items that only the server has
//! where they were, as far as both can be had.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{DIRECTIVE, SET_ORDER, does_not_apply, go_text, internal};
use crate::status::StatusError;

/// From this many items on, a list with items that are in no order is sorted in a plain way.
const QUADRATIC_MAX: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementKind {
    Map,
    Scalar,
}

/// What the items of lists are. They have to be of one type.
pub(super) fn element_kind(lists: &[&Vec<Value>]) -> Result<ElementKind, StatusError> {
    let mut items = lists.iter().flat_map(|list| list.iter());
    let Some(first) = items.next() else {
        return Err(internal("no elements in any of the given slices".to_owned()));
    };
    if first.is_array() {
        return Err(does_not_apply());
    }
    let name = go_text::type_name(first);
    if items.any(|item| go_text::type_name(item) != name) {
        let lists: Vec<_> = lists
            .iter()
            .map(|list| go_text::default_format(&Value::Array((*list).clone())))
            .collect();
        let lists = lists.join(" ");
        return Err(internal(format!("list element types are not identical: [{lists}]")));
    }
    Ok(if first.is_object() { ElementKind::Map } else { ElementKind::Scalar })
}

/// By what an item is found again.
pub(super) fn element_key(item: &Value, merge_key: &str) -> Result<String, StatusError> {
    if merge_key.is_empty() {
        return Ok(item.to_string());
    }
    let Value::Object(fields) = item else {
        return Err(internal(format!(
            "expected a map[string]interface {{}}, but received a {}",
            go_text::type_name(item)
        )));
    };
    match fields.get(merge_key) {
        Some(value) => Ok(value.to_string()),
        None => Err(internal(format!(
            "map: {} does not contain declared merge key: {merge_key}",
            go_text::default_format(item)
        ))),
    }
}

/// Rejects a patch whose items are not in the order of its directive.
pub(super) fn check_patch_order(
    patch: &[Value],
    order: &[Value],
    merge_key: &str,
) -> Result<(), StatusError> {
    if order.is_empty() || patch.is_empty() {
        return Ok(());
    }
    let mut items = Vec::new();
    for item in patch {
        if !merge_key.is_empty() && !item.is_object() {
            return Err(not_a_map(item));
        }
        if item.get(DIRECTIVE).and_then(Value::as_str) != Some("delete") {
            items.push(item);
        }
    }
    let mut items = items.into_iter().peekable();
    let mut order_left = order.iter().peekable();
    while let (Some(item), Some(wanted)) = (items.peek(), order_left.peek()) {
        if item.get(DIRECTIVE).is_some() {
            items.next();
            continue;
        }
        if element_key(item, merge_key)? == element_key(wanted, merge_key)? {
            items.next();
        }
        order_left.next();
    }
    if items.peek().is_none() {
        return Ok(());
    }
    let list = |items: &[Value]| go_text::default_format(&Value::Array(items.to_vec()));
    Err(internal(format!(
        "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
        list(patch),
        list(order)
    )))
}

fn not_a_map(item: &Value) -> StatusError {
    let received = go_text::type_name(item);
    internal(format!("expected a map[string]interface {{}}, but received a {received}"))
}

/// Puts `merged` in order: items of `patch_order` in that order, the others in `server_order`,
/// and an item of the server before one of the patch where the server had it so.
pub(super) fn reorder(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    merge_key: &str,
) -> Result<Vec<Value>, StatusError> {
    let patch_places = positions_by_key(patch_order, merge_key)?;
    let server_places = positions_by_key(server_order, merge_key)?;
    let (mut patch, mut server) = (Vec::new(), Vec::new());
    for item in merged {
        let key = element_key(&item, merge_key)?;
        let place = server_places.get(&key).copied();
        match patch_places.get(&key) {
            Some(in_patch) => patch.push((Some(*in_patch), place, item)),
            None => server.push((place, place, item)),
        }
    }
    sort(&mut patch);
    sort(&mut server);
    let mut out = Vec::with_capacity(patch.len() + server.len());
    let (mut patch, mut server) = (patch.into_iter().peekable(), server.into_iter().peekable());
    loop {
        let server_first = match (server.peek(), patch.peek()) {
            (None, None) => return Ok(out),
            (Some(_), None) => true,
            (Some((_, Some(left), _)), Some((_, Some(right), _))) => left < right,
            (_, Some(_)) => false,
        };
        let next = if server_first { server.next() } else { patch.next() };
        out.extend(next.map(|(_, _, item)| item));
    }
}

/// Returns the items of the server in the order that a merge leaves.
///
/// Kubernetes merges in place: new items take the places that deleted ones leave, so that they
/// have a place among the items of the server.
pub(super) fn server_order_after_merge(
    old: &[Value],
    new: &[Value],
    merge_key: &str,
) -> Vec<Value> {
    if merge_key.is_empty() {
        return old.to_vec();
    }
    let key = |item: &Value| item.get(merge_key).map(Value::to_string);
    let of = |directive: Option<&'static str>| {
        new.iter().filter(move |item| item.get(DIRECTIVE).map(Value::as_str) == directive.map(Some))
    };
    let deleted: BTreeSet<_> = of(Some("delete")).map(key).collect();
    let mut order: Vec<_> =
        old.iter().filter(|item| !deleted.contains(&key(item))).cloned().collect();
    if of(Some("replace")).next().is_some() {
        return order;
    }
    let mut known: BTreeSet<_> = order.iter().map(key).collect();
    let free = old.len() - order.len();
    let added = of(None).filter(|item| known.insert(key(item))).take(free);
    order.extend(added.cloned());
    order
}

fn positions_by_key(
    order: &[Value],
    merge_key: &str,
) -> Result<BTreeMap<String, usize>, StatusError> {
    let mut places = BTreeMap::new();
    for (place, item) in order.iter().enumerate() {
        places.entry(element_key(item, merge_key)?).or_insert(place);
    }
    Ok(places)
}

type PositionedItem = (Option<usize>, Option<usize>, Value);

/// Sorts by place. Items without one change places with all before them, as the comparison of
/// Kubernetes has it.
fn sort(items: &mut [PositionedItem]) {
    if items.len() > QUADRATIC_MAX || items.iter().all(|(place, ..)| place.is_some()) {
        items.sort_by_key(|(place, ..)| *place);
        return;
    }
    for i in 1..items.len() {
        let mut j = i;
        while j > 0 {
            let is_less = match (items[j].0, items[j - 1].0) {
                (Some(left), Some(right)) => left < right,
                _ => true,
            };
            if !is_less {
                break;
            }
            items.swap(j, j - 1);
            j -= 1;
        }
    }
}
