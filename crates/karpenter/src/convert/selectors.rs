//! Converts selectors: maps of texts with comma lists become lists of terms (spec 10 §16.5, §16.7).

use serde_json::{Map, Value, json};

use super::fields::Section;
use super::notes::{Note, Notes};

/// Terms that one selector may have in v1.
const TERMS_MAX: usize = 30;

const AMI_NAME: &str = "aws::name";
const AMI_OWNERS: &str = "aws::owners";

/// Returns whether the values of a v1alpha1 selector key are ids.
fn is_id_key(key: &str) -> bool {
    matches!(key, "aws-ids" | "aws::ids")
}

/// Converts `subnetSelector` or `securityGroupSelector`. `None` after an error.
pub(super) fn selector_terms(from: &Section<'_>, notes: &mut Notes) -> Option<Vec<Value>> {
    let pairs = sorted_pairs(from, notes);
    if pairs.is_empty() {
        notes.add(&from.path, Note::SelectorMissing);
        return None;
    }
    let (ids, tags): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(key, _)| is_id_key(key));
    if !ids.is_empty() {
        return id_terms(&ids, !tags.is_empty(), from, notes);
    }
    let Some(tags) = tag_combinations(&tags) else {
        notes.add(&from.path, Note::TooManyTerms);
        return None;
    };
    Some(tags.into_iter().map(|tags| json!({ "tags": tags })).collect())
}

/// `amiSelector`: one term for each owner, name and combination of tags.
pub(super) fn ami_terms(from: &Section<'_>, notes: &mut Notes) -> Option<Vec<Value>> {
    let pairs = sorted_pairs(from, notes);
    let (ids, rest): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(key, _)| is_id_key(key));
    if !ids.is_empty() {
        return id_terms(&ids, !rest.is_empty(), from, notes);
    }
    let list = |key: &str| {
        let found = rest.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| split_list(value)).unwrap_or_default()
    };
    let (mut owners, names) = (list(AMI_OWNERS), list(AMI_NAME));
    let tags: Vec<_> =
        rest.iter().copied().filter(|(key, _)| ![AMI_NAME, AMI_OWNERS].contains(key)).collect();
    if names.is_empty() && tags.is_empty() {
        notes.add(&from.path, Note::OwnerWithoutNameOrTags);
        return None;
    }
    if !tags.is_empty() {
        notes.add(&from.path, Note::AmiTags);
    }
    if owners.is_empty() && names.is_empty() {
        // A v1 term with tags only would match the images of every account.
        owners = vec!["self", "amazon"];
    }
    let tags = tag_combinations(&tags)
        .filter(|tags| owners.len().max(1) * names.len().max(1) * tags.len() <= TERMS_MAX);
    let Some(tags) = tags else {
        notes.add(&from.path, Note::TooManyTerms);
        return None;
    };
    let mut terms = Vec::new();
    for owner in or_one_absent(&owners) {
        for name in or_one_absent(&names) {
            for tags in &tags {
                terms.push(ami_term(owner, name, tags));
            }
        }
    }
    Some(terms)
}

fn ami_term(owner: Option<&str>, name: Option<&str>, tags: &Map<String, Value>) -> Value {
    let mut term = Map::new();
    if let Some(owner) = owner {
        term.insert("owner".into(), owner.into());
    }
    if let Some(name) = name {
        term.insert("name".into(), name.into());
    }
    if !tags.is_empty() {
        term.insert("tags".into(), tags.clone().into());
    }
    term.into()
}

/// Returns the items, or one absent item, so that products are not empty.
fn or_one_absent<'a>(items: &'a [&'a str]) -> Vec<Option<&'a str>> {
    if items.is_empty() { vec![None] } else { items.iter().copied().map(Some).collect() }
}

fn id_terms(
    ids: &[(&str, &str)],
    has_others: bool,
    from: &Section<'_>,
    notes: &mut Notes,
) -> Option<Vec<Value>> {
    let ids: Vec<_> = ids.iter().flat_map(|(_, value)| split_list(value)).collect();
    let problem = if has_others {
        Note::IdWithOtherFilters
    } else if ids.is_empty() {
        Note::SelectorMissing
    } else if ids.len() > TERMS_MAX {
        Note::TooManyTerms
    } else {
        return Some(ids.into_iter().map(|id| json!({ "id": id })).collect());
    };
    notes.add(&from.path, problem);
    None
}

/// Splits alpha-style comma lists in the tags of v1beta1 terms; everything else is copied.
pub(super) fn split_terms(key: &str, from: &Section<'_>, notes: &mut Notes) -> Vec<Value> {
    let mut terms = Vec::new();
    for at in from.list(key, notes) {
        let Some(term) = at.section(notes) else { continue };
        let tags = term.section("tags", notes);
        let pairs = sorted_pairs(&tags, notes);
        if !pairs.iter().any(|(_, value)| value.contains(',')) {
            terms.push(at.value.clone());
            continue;
        }
        notes.add(&tags.path, Note::CommaListSplit);
        let Some(combinations) = tag_combinations(&pairs) else {
            notes.add(&tags.path, Note::TooManyTerms);
            continue;
        };
        for tags in combinations {
            let mut term = at.value.clone();
            term["tags"] = tags.into();
            terms.push(term);
        }
    }
    if terms.len() > TERMS_MAX {
        notes.add(&from.path.key(key), Note::TooManyTerms);
    }
    terms
}

/// Returns the pairs of a selector in the order of its terms.
fn sorted_pairs<'a>(from: &Section<'a>, notes: &mut Notes) -> Vec<(&'a str, &'a str)> {
    let mut pairs = from.string_entries(notes);
    pairs.sort_unstable();
    pairs
}

/// Returns the non-empty items of a comma list.
fn split_list(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
}

/// Returns every combination of tags: for each value, for each earlier combination. `None` if there
/// are more than a selector can hold; a few keys are enough for a billion.
fn tag_combinations(tags: &[(&str, &str)]) -> Option<Vec<Map<String, Value>>> {
    let mut combinations = vec![Map::new()];
    for (key, list) in tags {
        let mut values = split_list(list);
        if values.is_empty() {
            values.push(""); // for v1 to refuse: it has no tag without a value
        }
        if values.len() * combinations.len() > TERMS_MAX {
            return None;
        }
        let with = |value: &&str| {
            let value: Value = (*value).into();
            combinations
                .iter()
                .map(move |earlier| {
                    let mut tags = earlier.clone();
                    tags.insert((*key).to_owned(), value.clone());
                    tags
                })
                .collect::<Vec<_>>()
        };
        combinations = values.iter().flat_map(with).collect();
    }
    Some(combinations)
}
