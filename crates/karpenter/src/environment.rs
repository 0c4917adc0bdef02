//! The environment of the process: read here and nowhere else, so that options are parsed in one
//! place and tests pass their own.

/// The value of a variable. Set to the empty text is set; text that is not Unicode counts as
/// unset.
#[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
