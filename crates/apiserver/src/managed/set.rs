//! Sets of fields, as a tree, with the algebra that merging needs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::path::{Path, PathElement};
use super::shape::{Ref, Shapes};

/// The fields that somebody owns. Invariant: no child is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    members: BTreeSet<PathElement>,
    children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// The set of paths that are made of field names only.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Path = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    pub fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|child| child.has(rest)),
        }
    }

    pub(super) fn has_member(&self, element: &PathElement) -> bool {
        self.members.contains(element)
    }

    pub(super) fn child(&self, element: &PathElement) -> Option<&Self> {
        self.children.get(element)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &PathElement> {
        self.members.iter()
    }

    pub(super) fn children(&self) -> impl Iterator<Item = (&PathElement, &Self)> {
        self.children.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.extend(other);
        out
    }

    fn extend(&mut self, other: &Self) {
        self.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            self.children.entry(element.clone()).or_default().extend(child);
        }
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: self.each_child(|element, child| {
                Some(child.intersection(other.children.get(element)?))
            }),
        }
    }

    /// What is here and not there. A path does not take those below it along.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: self.each_child(|element, child| {
                Some(match other.children.get(element) {
                    Some(other) => child.difference(other),
                    None => child.clone(),
                })
            }),
        }
    }

    /// What is here, without the paths there and all below them.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: self.each_child(|element, child| {
                if other.members.contains(element) {
                    return None;
                }
                Some(match other.children.get(element) {
                    Some(other) => child.recursive_difference(other),
                    None => child.clone(),
                })
            }),
        }
    }

    /// Only the members that have nothing below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let is_leaf = |element: &&PathElement| !self.children.contains_key(*element);
        Self {
            members: self.members.iter().filter(is_leaf).cloned().collect(),
            children: self.each_child(|_, child| Some(child.leaves())),
        }
    }

    /// Adds the fields that the schema names and that are here only as parents, so that removing
    /// the set removes them too.
    pub(super) fn with_named_parents(&self, shapes: Shapes<'_>, shape: Ref) -> Self {
        let atom = shapes.resolve(shape);
        let mut members = self.members.clone();
        let mut children = BTreeMap::new();
        for (element, child) in &self.children {
            let below = match element {
                PathElement::Field(name) => {
                    if atom.declares(name) {
                        members.insert(element.clone());
                    }
                    atom.map.map_or(Ref::None, |map| map.field(name))
                }
                PathElement::Key(_) => atom.list.map_or(Ref::None, |list| list.items),
                PathElement::Value(_) | PathElement::Index(_) => Ref::None,
            };
            children.insert(element.clone(), child.with_named_parents(shapes, below));
        }
        Self { members, children }
    }

    /// The paths that start as one of `patterns` does, where `*` stands for any step.
    #[must_use]
    pub fn only(&self, patterns: &[&[&str]]) -> Self {
        if patterns.iter().any(|pattern| pattern.is_empty()) {
            return self.clone();
        }
        let below = |element: &PathElement| -> Vec<&[&str]> {
            let fits = |first: &str| {
                first == "*" || matches!(element, PathElement::Field(name) if &**name == first)
            };
            patterns
                .iter()
                .filter(|pattern| fits(pattern[0]))
                .map(|pattern| &pattern[1..])
                .collect()
        };
        let is_kept = |element: &&PathElement| !below(element).is_empty();
        Self {
            members: self.members.iter().filter(is_kept).cloned().collect(),
            children: self.each_child(|element, child| {
                let below = below(element);
                (!below.is_empty()).then(|| child.only(&below))
            }),
        }
    }

    fn each_child(
        &self,
        f: impl Fn(&PathElement, &Self) -> Option<Self>,
    ) -> BTreeMap<PathElement, Self> {
        let children = self.children.iter();
        children
            .filter_map(|(element, child)| {
                let child = f(element, child)?;
                (!child.is_empty()).then(|| (element.clone(), child))
            })
            .collect()
    }

    /// Every path, members of a node before what is below it.
    pub fn paths(&self) -> Vec<Path> {
        let mut out = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut out);
        out
    }

    fn collect_paths(&self, prefix: &mut Path, out: &mut Vec<Path>) {
        for member in &self.members {
            prefix.push(member.clone());
            out.push(prefix.clone());
            prefix.pop();
        }
        for (element, child) in &self.children {
            prefix.push(element.clone());
            child.collect_paths(prefix, out);
            prefix.pop();
        }
    }

    /// The set as `fieldsV1`.
    pub fn encode(&self) -> Value {
        Value::Object(self.encode_with(false))
    }

    fn encode_with(&self, itself: bool) -> Map<String, Value> {
        let mut out = Map::new();
        if itself {
            out.insert(".".to_owned(), Value::Object(Map::new()));
        }
        let elements: BTreeSet<_> = self.members.iter().chain(self.children.keys()).collect();
        for element in elements {
            let below = match self.children.get(element) {
                Some(child) => child.encode_with(self.members.contains(element)),
                None => Map::new(),
            };
            out.insert(element.encode(), Value::Object(below));
        }
        out
    }

    /// Reads `fieldsV1`.
    pub fn decode(fields: &Value) -> Result<Self, String> {
        Ok(Self::decode_node(fields)?.0)
    }

    /// The set below a node, and whether the node itself is a member.
    fn decode_node(fields: &Value) -> Result<(Self, bool), String> {
        let mut out = Self::default();
        let mut is_member = false;
        let empty = Map::new();
        let fields = match fields {
            Value::Object(fields) => fields,
            Value::Null => &empty,
            other => return Err(format!("expect {{ or n, but found {other}")),
        };
        for (key, below) in fields {
            if key == "." {
                is_member = true;
                continue;
            }
            let Some(element) = PathElement::decode(key)? else { continue };
            let (child, child_is_member) = Self::decode_node(below)?;
            if child_is_member {
                out.members.insert(element.clone());
            }
            if !child.is_empty() {
                out.children.insert(element, child);
            }
        }
        let is_member = is_member || out.is_empty();
        Ok((out, is_member))
    }
}
