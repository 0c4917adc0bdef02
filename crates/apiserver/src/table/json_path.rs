//! Paths into objects, as Kubernetes reads them in printer columns.
//!
//! ```text
//! .spec.x  .metadata.labels.a\.b/c  ['x']  [0] [-1] [1:3] [*] .*  ..x  [0,1]
//! [?(@.type=="Ready")]  [?(@.weight>2)]  [?(@.name)]
//! ```
//!
//! A path that asks for something that cannot be (an index beyond the list, a comparison of a
//! text with a number) finds nothing at all, like one that cannot be read.

mod parse;

use std::cmp::Ordering;

use serde_json::Value;

/// The most values that one step may hold, since wildcards multiply them.
const MAX_RESULTS: usize = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// All items or values.
    Wildcard,
    /// The value and all that is in it.
    Recursive,
    Slice(Slice),
    Union(Vec<JsonPath>),
    Filter(Box<Filter>),
    /// The right side of a comparison.
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: SliceEnd,
    step: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum SliceEnd {
    /// `[2]`: right behind the start.
    AfterStart,
    Index(i64),
    ListEnd,
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: JsonPath,
    /// The comparison; without one, the left side only has to exist.
    comparison: Option<(Comparison, JsonPath)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    pub(super) fn parse(text: &str) -> Option<Self> {
        parse::parse_path(text)
    }

    /// All values that the path leads to; `None` when it leads into an error.
    pub(super) fn find<'a>(&'a self, value: &'a Value) -> Option<Vec<&'a Value>> {
        let mut found = vec![value];
        for step in &self.steps {
            found = step.walk(&found)?;
            if found.len() > MAX_RESULTS {
                return None;
            }
        }
        Some(found)
    }
}

impl Step {
    fn walk<'a>(&'a self, input: &[&'a Value]) -> Option<Vec<&'a Value>> {
        let mut found = Vec::new();
        match self {
            Self::Field(name) => found.extend(input.iter().filter_map(|value| value.get(name))),
            Self::Wildcard => {
                for value in input {
                    push_children(value, &mut found);
                }
            }
            Self::Recursive => {
                for value in input {
                    push_descendants(value, &mut found);
                }
            }
            Self::Slice(slice) => {
                for value in input.iter().filter(|value| !value.is_null()) {
                    match slice.select(value.as_array()?)? {
                        // As in the real one, an empty selection in one list ends the walk for all.
                        [] => return Some(found),
                        items => found.extend(items.iter().step_by(slice.step()?)),
                    }
                }
            }
            Self::Union(paths) => {
                for path in paths {
                    for value in input {
                        found.extend(path.find(value)?);
                    }
                }
            }
            Self::Filter(filter) => {
                for value in input {
                    for item in value.as_array()? {
                        if filter.matches(item)? {
                            found.push(item);
                        }
                    }
                }
            }
            Self::Literal(value) => found.extend(input.iter().map(|_| value)),
        }
        Some(found)
    }
}

fn push_children<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => found.extend(items),
        Value::Object(fields) => found.extend(fields.values()),
        _ => {}
    }
}

/// Adds a value and all values below it that have children.
///
/// The depth is that of the value, which the JSON parser bounds.
fn push_descendants<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let mut below = Vec::new();
    push_children(value, &mut below);
    if below.is_empty() || found.len() > MAX_RESULTS {
        return;
    }
    found.push(value);
    for value in below {
        push_descendants(value, found);
    }
}

impl Slice {
    fn step(self) -> Option<usize> {
        usize::try_from(self.step.unwrap_or(1)).ok().filter(|step| *step > 0)
    }

    fn select(self, list: &[Value]) -> Option<&[Value]> {
        let length = i64::try_from(list.len()).ok()?;
        let from_end = |index: i64| if index < 0 { index.checked_add(length) } else { Some(index) };
        let start_index = self.start.unwrap_or(0);
        let start = from_end(start_index)?;
        let end = match self.end {
            SliceEnd::AfterStart => match start_index.checked_add(1)? {
                end @ ..=0 => end.checked_add(length)?,
                end => end,
            },
            SliceEnd::Index(end) => from_end(end)?,
            SliceEnd::ListEnd => length,
        };
        if start == end {
            return Some(&[]);
        }
        list.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }
}

impl Filter {
    fn matches(&self, item: &Value) -> Option<bool> {
        let Some((comparison, right)) = &self.comparison else {
            return Some(self.left.find(item).is_some_and(|found| !found.is_empty()));
        };
        match (self.left.find(item)?.as_slice(), right.find(item)?.as_slice()) {
            ([], _) | (_, []) => Some(false),
            ([left], [right]) => comparison.holds(left, right),
            _ => None,
        }
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> Option<bool> {
        if let (Value::Bool(left), Value::Bool(right)) = (left, right) {
            return match self {
                Self::Equal => Some(left == right),
                Self::NotEqual => Some(left != right),
                _ => None,
            };
        }
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?)?,
                _ => return None,
            },
            _ => return None,
        };
        Some(match self {
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_the_same_values_as_kubernetes() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "label"}},
            "list": [1, 2, 3, 4],
            "items": [{"n": "a", "v": 1, "x": true}, {"n": "b", "v": 2}, {"n": "a", "v": 3}],
            "deep": {"er": {"n": "z"}},
            "mixed": [{"v": "text"}, {"v": 1}],
        });
        #[rustfmt::skip]
        let rows: &[(&str, Option<Value>)] = &[
            (".metadata.labels.a\\.b/c", Some(json!(["label"]))),
            (".metadata.labels['a\\.b/c']", Some(json!(["label"]))),
            (".list[0]", Some(json!([1]))),
            (".list[-1]", Some(json!([4]))),
            (".list[1:3]", Some(json!([2, 3]))),
            (".list[:2]", Some(json!([1, 2]))),
            (".list[::2]", Some(json!([1, 3]))),
            (".list[-2:]", Some(json!([3, 4]))),
            (".list[*]", Some(json!([1, 2, 3, 4]))),
            (".list.*", Some(json!([1, 2, 3, 4]))),
            (".list[0,2]", Some(json!([1, 3]))),
            (".list[9]", None),
            (".list[::0]", None),
            (".list.x", Some(json!([]))),
            (".nothing.at.all", Some(json!([]))),
            (".nothing[0]", Some(json!([]))),
            (".deep[0]", None),
            (".items[?(@.n==\"a\")].v", Some(json!([1, 3]))),
            (".items[?(@.n=='b')].v", Some(json!([2]))),
            (".items[?(@.n!=\"a\")].v", Some(json!([2]))),
            (".items[?(@.v>=2)].n", Some(json!(["b", "a"]))),
            (".items[?(@.v<2)].n", Some(json!(["a"]))),
            (".items[?(@.x)].v", Some(json!([1]))),
            (".items[?(@.x==true)].v", Some(json!([1]))),
            (".items[?( @.n == \"b\" )].v", Some(json!([2]))),
            (".items[?(@.n==\"no\")].v", Some(json!([]))),
            (".items[?(@.n==1)].v", None),
            (".mixed[?(@.v==1)].v", None),
            (".nothing[?(@.n==1)].v", Some(json!([]))),
            ("..n", Some(json!(["a", "b", "a", "z"]))),
            (".", Some(json!([]))),
        ];
        for (path, expected) in rows {
            let path_read = JsonPath::parse(path).unwrap();
            let found = path_read.find(&object).map(|found| json!(found));
            assert_eq!(&found, expected, "{path}");
        }
    }

    #[test]
    fn malformed_paths_do_not_parse() {
        for path in [
            "[",
            ".a[",
            ".a[x]",
            ".a[?(@.b==\"c]",
            ".a[?(@.b)",
            ".a}",
            ".a{",
            "&",
            ".a[?(@.b=~1)]",
            ".a....b",
        ] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }

    #[test]
    fn wildcard_results_are_limited() {
        let wide = json!(vec![vec![0; 100]; 3]);
        let wide = json!(vec![wide; 100]);
        let path = JsonPath::parse(".*.*.*").unwrap();
        assert_eq!(path.find(&wide), None);
    }
}
