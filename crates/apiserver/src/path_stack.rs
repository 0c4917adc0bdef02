//! The path of a recursive walk, kept on the call stack: most paths are never written as text.

use std::fmt;

#[derive(Debug, Clone, Copy)]
pub(crate) enum PathStack<'a> {
    Root,
    Field(&'a PathStack<'a>, &'a str),
    Item(&'a PathStack<'a>, usize),
}

/// As in `spec.containers[0].name`.
impl fmt::Display for PathStack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
