//! The environment of the process: read here and nowhere else, so that options are parsed in one
//! place and tests pass their own.

use std::ffi::OsString;

use crate::diagnostic::Diagnostic;

/// Returns the value of a variable. Set to the empty text is set.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns the text of a variable; an error if it is set to something else.
pub(crate) fn text(name: &str) -> Result<Option<String>, Box<Diagnostic>> {
    let text = variable(name).map(OsString::into_string).transpose();
    text.map_err(|_| not_utf8_diagnostic(name).into())
}

/// Returns the region that the environment names for AWS tools.
pub(crate) fn aws_region() -> Result<Option<String>, Box<Diagnostic>> {
    for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
        if let Some(region) = text(name)?.filter(|region| !region.is_empty()) {
            return Ok(Some(region));
        }
    }
    Ok(None)
}

/// Returns the diagnostic of a variable that is set to something else than text.
pub(crate) fn not_utf8_diagnostic(name: &str) -> Diagnostic {
    Diagnostic::new(format!("the environment variable {name} is not valid UTF-8"))
        .fix(format!("set {name} to text, or unset it"))
}
