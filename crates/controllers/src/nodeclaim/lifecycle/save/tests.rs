//! Tests of merging the changes of a pass into a claim that changed meanwhile.

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::testing::fixtures::{has, node_claim};

#[test]
fn concurrent_changes_of_other_controllers_are_kept() {
    let now = Timestamp::UNIX_EPOCH;
    let before: NodeClaim = serde_json::from_value(node_claim("a", &json!({}))).unwrap();
    let mut after = before.clone();
    after.condition_set(now).set_true(LAUNCHED);
    after.status.get_or_insert_default().provider_id = Some("i".to_owned());
    let mut current = before.clone();
    current.condition_set(now).set_true("Drifted");
    current.status.get_or_insert_default().image_id = Some("by others".to_owned());
    let mut wanted = current.clone();
    merge_changes(&before, &after, &mut wanted, now);
    assert!(has(&wanted, "Launched", "True") && has(&wanted, "Drifted", "True"));
    let status = wanted.status.unwrap();
    assert_eq!(status.provider_id.as_deref(), Some("i"));
    assert_eq!(status.image_id.as_deref(), Some("by others"));
}

#[test]
fn untouched_conditions_are_not_reset() {
    let now = Timestamp::UNIX_EPOCH;
    let mut before: NodeClaim = serde_json::from_value(node_claim("a", &json!({}))).unwrap();
    for condition in [LAUNCHED, REGISTERED, INITIALIZED] {
        before.condition_set(now).set_true(condition);
    }
    let mut wanted = before.clone();
    wanted.condition_set(now).set(INITIALIZED, Status::Unknown, "Rebooting", "");
    let rebooting = wanted.clone();
    merge_changes(&before, &before.clone(), &mut wanted, now);
    assert_eq!(wanted, rebooting);
}
