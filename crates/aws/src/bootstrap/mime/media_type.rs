//! Reads the boundary from a `Content-Type` header.

use crate::bootstrap::error::MimeError;

/// Returns the boundary of a multipart content type.
pub(super) fn multipart_boundary(content_type: &str) -> Result<String, MimeError> {
    let (media_type, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let media_type = media_type.trim().to_ascii_lowercase();
    if media_type.is_empty() || media_type.split('/').any(|part| !is_token(part)) {
        return Err(MimeError::ContentType);
    }
    let boundary = boundary_parameter(parameters).ok_or(MimeError::ContentType)?;
    if !media_type.starts_with("multipart/") {
        Err(MimeError::NotMultipart)
    } else if boundary.is_empty() {
        Err(MimeError::NoBoundary)
    } else {
        Ok(boundary)
    }
}

/// Returns the parameter `boundary`, empty without one; `None` if the parameters cannot be read.
fn boundary_parameter(parameters: &str) -> Option<String> {
    let mut rest = parameters.trim_start();
    let mut boundary = None;
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let name = name.trim();
        let (value, after) = parameter_value(after.trim_start())?;
        if !is_token(name) {
            return None;
        }
        if name.eq_ignore_ascii_case("boundary") {
            if boundary.is_some() {
                return None;
            }
            boundary = Some(value);
        }
        rest = after.trim_start();
        if !rest.is_empty() {
            rest = rest.strip_prefix(';')?.trim_start();
        }
    }
    Some(boundary.unwrap_or_default())
}

/// Returns a token or quoted text, and the text after it.
fn parameter_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c| !is_token_char(c)).unwrap_or(text.len());
        let (token, rest) = text.split_at_checked(end)?;
        return (!token.is_empty()).then(|| (token.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => value.push(chars.next()?),
            c => value.push(c),
        }
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_token_char)
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?=".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boundary_is_a_token_or_quoted() {
        #[rustfmt::skip]
        let cases = [
            (r#"multipart/mixed; boundary="//""#,               Ok("//")),
            ("multipart/mixed;boundary=BOUNDARY",               Ok("BOUNDARY")),
            (r#"Multipart/Mixed; charset=utf-8; BOUNDARY="a b";"#, Ok("a b")),
            (r#"multipart/mixed; boundary="a\"b""#,             Ok("a\"b")),
            ("multipart/mixed; boundary=//",                    Err(MimeError::ContentType)),
            ("multipart/mixed; boundary=\"open",                Err(MimeError::ContentType)),
            ("multipart/mixed; boundary=a; boundary=b",         Err(MimeError::ContentType)),
            ("multipart/mixed; boundary",                       Err(MimeError::ContentType)),
            ("multipart/mixed",                                 Err(MimeError::NoBoundary)),
            (r#"multipart/mixed; boundary="""#,                 Err(MimeError::NoBoundary)),
            ("text/plain; boundary=a",                          Err(MimeError::NotMultipart)),
            ("",                                                Err(MimeError::ContentType)),
            (";",                                               Err(MimeError::ContentType)),
        ];
        for (text, want) in cases {
            assert_eq!(multipart_boundary(text), want.map(str::to_owned), "{text}");
        }
    }
}
