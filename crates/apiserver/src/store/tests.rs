//! Tests of the store: lists at old versions, and the bounded history.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn put(store: &mut Store, name: &str) {
    let object = json!({"metadata": {"name": name}});
    store.put(
        &ResourceId::new("", "things"),
        &ObjectKey::new("n", name),
        object,
        StringPairs::default(),
    );
}

fn names(store: &mut Store) -> Vec<String> {
    let table = store.table(&ResourceId::new("", "things"));
    table
        .range("", None)
        .map(|(key, stored)| format!("{}@{}", key.as_str(), stored.version))
        .collect()
}

proptest! {
    /// What was listed at a version is what the history gives for it later, in pages of any size.
    #[test]
    fn lists_at_an_old_version_return_the_objects_of_that_version(
        steps in prop::collection::vec((0..6_u8, any::<bool>()), 1..40),
        size in 1..5_usize,
    ) {
        let id = ResourceId::new("", "things");
        let mut store = Store::new();
        let mut versions = Vec::new();
        for (name, is_put) in steps {
            let name = name.to_string();
            if is_put {
                put(&mut store, &name);
            } else {
                store.remove(&id, &ObjectKey::new("n", &name));
            }
            versions.push((store.version(), names(&mut store)));
        }
        for (version, expected) in versions {
            let table = store.table(&id);
            let mut found = Vec::new();
            let mut after = None;
            loop {
                let page = table.range_at_version(version, "n", after.as_ref(), size).unwrap();
                let is_last = page.len() < size;
                after = page.last().map(|(key, _)| key.clone()).or(after);
                let name = |(key, stored): &(ObjectKey, Arc<StoredObject>)| format!("{}@{}", key.as_str(), stored.version);
                found.extend(page.iter().map(name));
                if is_last {
                    break;
                }
            }
            prop_assert_eq!(found, expected);
            prop_assert!(table.range_at_version(version, "other", None, 9).unwrap().is_empty());
        }
    }
}

#[test]
fn the_history_is_bounded_by_its_retained_bytes() {
    const MIB: usize = 1024 * 1024;
    let stored = |version| {
        let object = json!({"metadata": {}, "data": " ".repeat(MIB)});
        Arc::new(StoredObject::new(object, version, StringPairs::default(), ObjectText::unshared))
    };
    let mut history = History::default();
    for version in 1..=100 {
        history.push(Change::put(ObjectKey::new("", "a"), Some(stored(0)), stored(version)));
    }
    assert_eq!(history.changes_after(75).map(Iterator::count), Ok(25));
    assert_eq!(history.changes_after(60).err(), Some(VersionTooOld));
    assert_eq!(history.changes_after(100).map(Iterator::count), Ok(0));
}
