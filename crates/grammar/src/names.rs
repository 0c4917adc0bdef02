//! Kubernetes' rules for names, with the details of each broken rule (spec 10 §1.2).
//!
//! Each function returns the errors of a text, none for a valid one. Lengths count bytes; the older
//! rules of Kubernetes call them characters.

const SUBDOMAIN_MAX: usize = 253;
const LABEL_MAX: usize = 63;

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS_LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_1035_LABEL_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Returns the errors of a qualified name: optional subdomain, slash, name.
///
/// Keys of labels and annotations are qualified names, and so are finalizers.
pub fn qualified_name_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        ["", name] => {
            errors.push("prefix part must be non-empty".to_owned());
            name
        }
        [prefix, name] => {
            let details = too_long(prefix, SUBDOMAIN_MAX, "bytes")
                .into_iter()
                .chain((!is_dns_subdomain(prefix)).then(|| SUBDOMAIN_RULE.to_owned()));
            errors.extend(details.map(|detail| format!("prefix part {detail}")));
            name
        }
        _ => {
            let form = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {NAME_RULE} {form}")];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    }
    let long = too_long(name, LABEL_MAX, "bytes");
    errors.extend(long.map(|detail| format!("name part {detail}")));
    if !is_name(name) {
        errors.push(format!("name part {NAME_RULE}"));
    }
    errors
}

/// Returns the errors of a label value; the empty text is valid.
pub fn label_value_errors(text: &str) -> Vec<String> {
    let mut errors: Vec<String> = too_long(text, LABEL_MAX, "bytes").into_iter().collect();
    if !text.is_empty() && !is_name(text) {
        errors.push(LABEL_VALUE_RULE.to_owned());
    }
    errors
}

/// Returns the errors of a DNS subdomain, such as the name of an object.
pub fn dns_subdomain_errors(text: &str) -> Vec<String> {
    let mut errors: Vec<String> = too_long(text, SUBDOMAIN_MAX, "characters").into_iter().collect();
    if !is_dns_subdomain(text) {
        errors.push(SUBDOMAIN_RULE.to_owned());
    }
    errors
}

/// Returns the errors of a DNS label, such as the name of a namespace.
pub fn dns_label_errors(text: &str) -> Vec<String> {
    let mut errors: Vec<String> = too_long(text, LABEL_MAX, "characters").into_iter().collect();
    if !is_dns_label(text) {
        let is_dotted = is_dns_subdomain(text);
        let error = if is_dotted { "must not contain dots" } else { DNS_LABEL_RULE };
        errors.push(error.to_owned());
    }
    errors
}

/// Returns the errors of a DNS-1035 label, such as a kind in lower case.
pub fn dns_1035_label_errors(text: &str) -> Vec<String> {
    let mut errors: Vec<String> = too_long(text, LABEL_MAX, "characters").into_iter().collect();
    if !(is_dns_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())) {
        errors.push(DNS_1035_LABEL_RULE.to_owned());
    }
    errors
}

fn too_long(text: &str, max: usize, unit: &str) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} {unit}"))
}

fn is_name(text: &str) -> bool {
    is_framed(text, |c| c.is_ascii_alphanumeric(), |c| matches!(c, b'-' | b'_' | b'.'))
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
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
            assert_eq!(dns_subdomain_errors(bad), [SUBDOMAIN_RULE], "{bad:?}");
        }
        assert_eq!(dns_subdomain_errors("a-1.b"), Vec::<String>::new());
        let long = dns_subdomain_errors(&"a".repeat(254));
        assert_eq!(long, ["must be no more than 253 characters"]);
    }

    #[test]
    fn dns_labels_have_no_dots_and_a_dns_1035_label_starts_with_a_letter() {
        #[rustfmt::skip]
        let cases: [(&str, &[&str], &[&str]); 7] = [
            ("a",     &[],                        &[]),
            ("a-1",   &[],                        &[]),
            ("1-a",   &[],                        &[DNS_1035_LABEL_RULE]),
            ("",      &[DNS_LABEL_RULE],          &[DNS_1035_LABEL_RULE]),
            ("a.b",   &["must not contain dots"], &[DNS_1035_LABEL_RULE]),
            ("A",     &[DNS_LABEL_RULE],          &[DNS_1035_LABEL_RULE]),
            ("a-",    &[DNS_LABEL_RULE],          &[DNS_1035_LABEL_RULE]),
        ];
        for (text, label, dns_1035) in cases {
            assert_eq!(dns_label_errors(text), label, "{text:?}");
            assert_eq!(dns_1035_label_errors(text), dns_1035, "{text:?}");
        }
        let long = "must be no more than 63 characters";
        assert_eq!(dns_label_errors(&"a".repeat(64)), [long]);
        assert_eq!(dns_1035_label_errors(&"a".repeat(64)), [long]);
    }
}
