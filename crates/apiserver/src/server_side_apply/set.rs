//! Sets of fields, as a tree, with the algebra that merging needs.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::merge_schema::{MergeSchema, TypeRef};
use super::path::{FieldPathStack, Path, PathElement};

/// A set of fields of an object. Invariant: no node is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: BTreeMap<PathElement, Node>,
}

/// Whether a field is in the set, and the set of the fields below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    is_member: bool,
    children: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.is_member && self.children.is_empty()
    }

    fn extend(&mut self, other: Self) {
        self.is_member |= other.is_member;
        self.children.extend(other.children);
    }
}

impl FieldSet {
    /// Returns the set of paths that consist of field names only.
    pub fn from_field_names(paths: &[&[&str]]) -> Self {
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
            [last] => self.nodes.entry(last.clone()).or_default().is_member = true,
            [first, rest @ ..] => {
                self.nodes.entry(first.clone()).or_default().children.insert(rest);
            }
        }
    }

    /// As [`FieldSet::insert`], for the path of a recursive walk.
    pub(super) fn insert_stack(&mut self, trail: FieldPathStack<'_>) {
        if let Some((parent, element)) = trail.split() {
            self.descend_mut(parent).nodes.entry(element).or_default().is_member = true;
        }
    }

    /// Returns the set below a path, and creates its nodes. The caller inserts into it.
    fn descend_mut(&mut self, trail: FieldPathStack<'_>) -> &mut Self {
        match trail.split() {
            None => self,
            Some((parent, element)) => {
                &mut self.descend_mut(parent).nodes.entry(element).or_default().children
            }
        }
    }

    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.has_member(last),
            [first, rest @ ..] => self.child(first).is_some_and(|child| child.contains(rest)),
        }
    }

    pub(super) fn has_member(&self, element: &PathElement) -> bool {
        self.nodes.get(element).is_some_and(|node| node.is_member)
    }

    pub(super) fn child(&self, element: &PathElement) -> Option<&Self> {
        self.nodes.get(element).map(|node| &node.children).filter(|below| !below.is_empty())
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &PathElement> {
        self.nodes.iter().filter(|(_, node)| node.is_member).map(|(element, _)| element)
    }

    pub(super) fn children(&self) -> impl Iterator<Item = (&PathElement, &Self)> {
        let below = self.nodes.iter().map(|(element, node)| (element, &node.children));
        below.filter(|(_, below)| !below.is_empty())
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.extend(other.clone());
        out
    }

    pub(super) fn extend(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        for (element, node) in other.nodes {
            self.nodes.entry(element).or_default().extend(node);
        }
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (few, many) =
            if self.nodes.len() <= other.nodes.len() { (self, other) } else { (other, self) };
        few.filtered(|element, node| {
            let other = many.nodes.get(element)?;
            Some(Node {
                is_member: node.is_member && other.is_member,
                children: node.children.intersection(&other.children),
            })
        })
    }

    /// Returns the paths that `other` lacks. A path does not remove the paths below it.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.subtract(other);
        out
    }

    /// Leaves the [`FieldSet::difference`].
    pub(super) fn subtract(&mut self, other: &Self) {
        self.update_common_nodes(other, |node, other| {
            node.is_member &= !other.is_member;
            node.children.subtract(&other.children);
        });
    }

    /// Returns the set without the paths of `other` and all paths below them.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.subtract_all(other);
        out
    }

    /// Leaves the [`FieldSet::recursive_difference`].
    pub(super) fn subtract_all(&mut self, other: &Self) {
        self.update_common_nodes(other, |node, other| {
            if other.is_member {
                *node = Node::default();
            } else {
                node.children.subtract_all(&other.children);
            }
        });
    }

    /// Calls `change` for the nodes in both sets, and drops those it empties.
    fn update_common_nodes(&mut self, other: &Self, change: impl Fn(&mut Node, &Node)) {
        for (element, other) in &other.nodes {
            let Some(node) = self.nodes.get_mut(element) else { continue };
            change(node, other);
            if node.is_empty() {
                self.nodes.remove(element);
            }
        }
    }

    /// Only the members that have nothing below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        self.filtered(|_, node| {
            let is_member = node.is_member && node.children.is_empty();
            Some(Node { is_member, children: node.children.leaves() })
        })
    }

    /// Adds the fields that the schema names and that are here only as parents, so that removing
    /// the set removes them too.
    pub(super) fn with_named_parents(&self, shapes: MergeSchema<'_>, shape: TypeRef) -> Self {
        let atom = shapes.resolve(shape);
        self.filtered(|element, node| {
            if node.children.is_empty() {
                return Some(node.clone());
            }
            let (below, is_named) = match element {
                PathElement::Field(name) => (
                    atom.map.map_or(TypeRef::Undeclared, |map| map.field(name)),
                    atom.declares(name),
                ),
                PathElement::Key(_) => {
                    (atom.list.map_or(TypeRef::Undeclared, |list| list.items), false)
                }
                PathElement::Value(_) | PathElement::Index(_) => (TypeRef::Undeclared, false),
            };
            let is_member = node.is_member || is_named;
            Some(Node { is_member, children: node.children.with_named_parents(shapes, below) })
        })
    }

    /// Returns the paths that start with one of `patterns`; `*` is any element.
    #[must_use]
    pub fn matching_patterns(&self, patterns: &[&[&str]]) -> Self {
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
        self.filtered(|element, node| {
            let below = below(element);
            (!below.is_empty()).then(|| Node {
                is_member: node.is_member,
                children: node.children.matching_patterns(&below),
            })
        })
    }

    /// What `f` makes of each node.
    fn filtered(&self, f: impl Fn(&PathElement, &Node) -> Option<Node>) -> Self {
        let nodes = self.nodes.iter().filter_map(|(element, node)| {
            let node = f(element, node)?;
            (!node.is_empty()).then(|| (element.clone(), node))
        });
        Self { nodes: nodes.collect() }
    }

    /// Returns every path; members of a node come before the paths below it.
    pub fn paths(&self) -> Vec<Path> {
        let mut out = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut out);
        out
    }

    fn collect_paths(&self, prefix: &mut Path, out: &mut Vec<Path>) {
        for member in self.members() {
            prefix.push(member.clone());
            out.push(prefix.clone());
            prefix.pop();
        }
        for (element, child) in self.children() {
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
        for (element, node) in &self.nodes {
            let has_below = !node.children.is_empty();
            let below = node.children.encode_with(has_below && node.is_member);
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
            let node = out.nodes.entry(element).or_default();
            node.is_member |= child_is_member;
            if !child.is_empty() {
                node.children = child;
            }
        }
        let is_member = is_member || out.is_empty();
        Ok((out, is_member))
    }
}
