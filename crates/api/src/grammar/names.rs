//! Kubernetes' rules for names, with the details that it reports when a text breaks one
//! (spec 10 §1.2).
//!
//! The details are part of the interface: runtime validation prints them into conditions
//! (spec 10 §11), so they are word for word those of Kubernetes 1.36.

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const NAME_MAX: usize = 63;
const LABEL_VALUE_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

/// Returns the errors of a qualified name.
/// That is an optional DNS prefix with a slash, then a name.
pub fn qualified_name_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                let details = subdomain_errors(prefix);
                errors.extend(details.into_iter().map(|detail| format!("prefix part {detail}")));
            }
            name
        }
        _ => {
            let form = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {NAME_RULE} {form}")];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_MAX {
        errors.push(format!("name part {}", too_long(NAME_MAX)));
    }
    if !is_name(name) {
        errors.push(format!("name part {NAME_RULE}"));
    }
    errors
}

/// Returns the errors of a label value; the empty text is valid.
pub fn label_value_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_VALUE_MAX {
        errors.push(too_long(LABEL_VALUE_MAX));
    }
    if !text.is_empty() && !is_name(text) {
        errors.push(LABEL_VALUE_RULE.to_owned());
    }
    errors
}

/// Returns the errors of a lower-case DNS-1123 subdomain.
pub fn subdomain_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        errors.push(too_long(SUBDOMAIN_MAX));
    }
    if !text.split('.').all(is_dns_label) {
        errors.push(SUBDOMAIN_RULE.to_owned());
    }
    errors
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn is_name(text: &str) -> bool {
    is_framed(text, |c| c.is_ascii_alphanumeric(), |c| matches!(c, b'-' | b'_' | b'.'))
}

fn is_dns_label(text: &str) -> bool {
    is_framed(text, |c| c.is_ascii_lowercase() || c.is_ascii_digit(), |c| c == b'-')
}

/// Whether `text` starts and ends with an `outer` byte and has only `outer` or `inner` ones.
fn is_framed(text: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|&c| outer(c))
        && bytes.last().is_some_and(|&c| outer(c))
        && bytes.iter().all(|&c| outer(c) || inner(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names_are_validated_as_in_kubernetes() {
        let prefix_264 = format!("{}/name", "a".repeat(264));
        let name_255 = "a".repeat(255);
        let name_rule = format!("name part {NAME_RULE}");
        let too_long_name = "name part must be no more than 63 bytes";
        #[rustfmt::skip]
        let cases: [(&str, &[&str]); 13] = [
            ("a", &[]),
            ("Test", &[]),
            ("test.com/Test", &[]),
            ("test.com.com/test", &[]),
            ("a_b-c.d", &[]),
            ("", &["name part must be non-empty", &name_rule]),
            ("test/", &["name part must be non-empty", &name_rule]),
            ("/test", &["prefix part must be non-empty"]),
            ("test.com.com}", &[&name_rule]),
            ("-a", &[&name_rule]),
            ("Test.com/test", &[&format!("prefix part {SUBDOMAIN_RULE}")]),
            (&prefix_264, &["prefix part must be no more than 253 bytes"]),
            (&name_255, &[too_long_name]),
        ];
        for (text, errors) in cases {
            assert_eq!(qualified_name_errors(text), errors, "{text:?}");
        }
    }

    #[test]
    fn a_second_slash_is_reported_as_one_error() {
        let errors = qualified_name_errors("test/test/test");
        assert_eq!(errors.len(), 1);
        assert!(errors[0].starts_with("a valid label key must consist of alphanumeric characters"));
        assert!(errors[0].ends_with(
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ));
    }

    #[test]
    fn label_values_may_be_empty_but_not_malformed() {
        assert_eq!(label_value_errors(""), Vec::<String>::new());
        assert_eq!(label_value_errors("my_value"), Vec::<String>::new());
        assert_eq!(label_value_errors("/ is not allowed"), [LABEL_VALUE_RULE]);
        assert_eq!(label_value_errors(&"x".repeat(64)), ["must be no more than 63 bytes"]);
    }

    #[test]
    fn subdomains_have_no_empty_labels() {
        for bad in ["", ".", "a..b", "a.", "-a.b", "A"] {
            assert_eq!(subdomain_errors(bad), [SUBDOMAIN_RULE], "{bad:?}");
        }
        assert_eq!(subdomain_errors("a-1.b"), Vec::<String>::new());
    }
}
