//! Events, which two groups serve under different names: one stored object, two forms.

use serde_json::Value;

use super::built_in_kind::{BASE_KIND, BuiltInKind};
use super::json_access::text;
use super::validation;

pub(super) static EVENT: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.Event",
    validate_name: validation::path_segment,
    allows_create_on_update: true,
    validate: validation::validate_event,
    validate_update: |new, _| validation::validate_event(new),
    selectable_fields: |event| {
        read_selectable_fields(event, &CORE_FIELDS, "/reportingComponent", "/source/component")
    },
    ..BASE_KIND
};

pub(super) static EVENTS_V1_EVENT: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.events.v1.Event",
    allows_create_on_update: true,
    validate: validation::validate_events_v1_event,
    validate_update: validation::validate_events_v1_event_update,
    selectable_fields: |event| {
        let mut found = read_selectable_fields(
            event,
            &EVENTS_V1_FIELDS,
            "/reportingController",
            "/deprecatedSource/component",
        );
        found.retain(|(name, _)| *name != "source");
        found
    },
    ..BASE_KIND
};

pub(super) const EVENTS_GROUP: &str = "events.k8s.io";

/// The name of a field in the core group and in `events.k8s.io`.
const FIELD_NAME_PAIRS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Brings an event into the form of a group: empty for the core group, else `events.k8s.io`. Its
/// type says how empty fields are written, so [`crate::type_model::encode`] comes after it.
pub fn convert_event(event: &mut Value, group: &str) {
    let Some(fields) = event.as_object_mut() else { return };
    let to_new = group == EVENTS_GROUP;
    for (core, new) in FIELD_NAME_PAIRS {
        let (from, to) = if to_new { (core, new) } else { (new, core) };
        if let Some(value) = fields.shift_remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
    let version = if to_new { "events.k8s.io/v1" } else { "v1" };
    fields.insert("apiVersion".to_owned(), version.into());
}

/// Returns the selectable fields of an event, with the names of both groups.
///
/// The event is in the form of the core group.
pub fn selectable_event_fields(event: &Value) -> Vec<(&'static str, String)> {
    let mut newer = event.clone();
    convert_event(&mut newer, EVENTS_GROUP);
    let mut found = (EVENT.selectable_fields)(event);
    found.extend((EVENTS_V1_EVENT.selectable_fields)(&newer));
    found
}

/// The selectable fields, each with the pointer to its value.
type SelectableFields = [(&'static str, &'static str); 9];

const CORE_FIELDS: SelectableFields = [
    ("involvedObject.kind", "/involvedObject/kind"),
    ("involvedObject.namespace", "/involvedObject/namespace"),
    ("involvedObject.name", "/involvedObject/name"),
    ("involvedObject.uid", "/involvedObject/uid"),
    ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
    ("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
    ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
    ("reason", "/reason"),
    ("reportingComponent", "/reportingComponent"),
];

const EVENTS_V1_FIELDS: SelectableFields = [
    ("regarding.kind", "/regarding/kind"),
    ("regarding.namespace", "/regarding/namespace"),
    ("regarding.name", "/regarding/name"),
    ("regarding.uid", "/regarding/uid"),
    ("regarding.apiVersion", "/regarding/apiVersion"),
    ("regarding.resourceVersion", "/regarding/resourceVersion"),
    ("regarding.fieldPath", "/regarding/fieldPath"),
    ("reason", "/reason"),
    ("reportingController", "/reportingController"),
];

fn read_selectable_fields(
    event: &Value,
    plain: &SelectableFields,
    controller: &str,
    component: &str,
) -> Vec<(&'static str, String)> {
    let mut found: Vec<(&'static str, String)> =
        plain.iter().map(|(name, pointer)| (*name, text(event, pointer).to_owned())).collect();
    let source = match text(event, component) {
        "" => text(event, controller),
        component => component,
    };
    found.push(("source", source.to_owned()));
    found.push(("type", text(event, "/type").to_owned()));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_convert_between_core_and_events_group_without_loss() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"},
            "involvedObject": {"kind": "Pod"}, "message": "m", "source": {"component": "c"},
            "count": 2, "firstTimestamp": "f", "lastTimestamp": "l", "reportingComponent": "r",
        });
        let mut event = core.clone();
        convert_event(&mut event, EVENTS_GROUP);
        assert_eq!(
            event,
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"},
                "regarding": {"kind": "Pod"}, "note": "m", "deprecatedSource": {"component": "c"},
                "deprecatedCount": 2, "deprecatedFirstTimestamp": "f",
                "deprecatedLastTimestamp": "l", "reportingController": "r",
            })
        );
        convert_event(&mut event, "");
        assert_eq!(event, core);
    }

    #[test]
    fn event_source_is_the_component_or_else_the_reporting_controller() {
        let of = |event: Value| {
            let found = (EVENT.selectable_fields)(&event);
            found.into_iter().find(|(name, _)| *name == "source").unwrap().1
        };
        assert_eq!(of(json!({"source": {"component": "c"}, "reportingComponent": "r"})), "c");
        assert_eq!(of(json!({"source": {}, "reportingComponent": "r"})), "r");
    }
}
