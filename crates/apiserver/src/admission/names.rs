//! Validates names, labels and annotations, with the messages of the API server.
//!
//! Each function returns the problems of a text, none for a valid one.

use std::sync::LazyLock;

use regex::Regex;

use karpenter_cel::re2;

const SUBDOMAIN_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

const DNS_LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_SUBDOMAIN_PATTERN: &str =
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_1035_PATTERN: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED_NAME_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE_PATTERN: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

static DNS_LABEL: LazyLock<Regex> = LazyLock::new(|| anchored_regex(DNS_LABEL_PATTERN));
static DNS_SUBDOMAIN: LazyLock<Regex> = LazyLock::new(|| anchored_regex(DNS_SUBDOMAIN_PATTERN));
static DNS_1035_LABEL: LazyLock<Regex> = LazyLock::new(|| anchored_regex(DNS_1035_PATTERN));
static QUALIFIED_NAME: LazyLock<Regex> = LazyLock::new(|| anchored_regex(QUALIFIED_NAME_PATTERN));
static LABEL_VALUE: LazyLock<Regex> = LazyLock::new(|| anchored_regex(LABEL_VALUE_PATTERN));

fn anchored_regex(pattern: &str) -> Regex {
    re2::compile(&format!("^{pattern}$")).expect("the pattern is a constant that compiles")
}

fn pattern_mismatch(words: &str, examples: &[&str], pattern: &str) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    let examples = examples.join(" or ");
    format!("{words} (e.g. {examples}regex used for validation is '{pattern}')")
}

/// The API server counts bytes in both cases, and calls them characters in its older functions.
fn too_long(text: &str, max: usize, unit: &str) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} {unit}"))
}

/// Returns the problems of a DNS subdomain, such as the name of an object.
pub(crate) fn dns_subdomain_problems(text: &str) -> Vec<String> {
    let mut problems: Vec<String> =
        too_long(text, SUBDOMAIN_BYTES_MAX, "characters").into_iter().collect();
    problems.extend(dns_subdomain_mismatch(text));
    problems
}

fn dns_subdomain_mismatch(text: &str) -> Option<String> {
    (!DNS_SUBDOMAIN.is_match(text)).then(|| {
        pattern_mismatch(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character",
            &["example.com"],
            DNS_SUBDOMAIN_PATTERN,
        )
    })
}

/// Returns the problems of a DNS label, such as the name of a namespace.
pub(crate) fn dns_label_problems(text: &str) -> Vec<String> {
    let mut problems: Vec<String> =
        too_long(text, LABEL_BYTES_MAX, "characters").into_iter().collect();
    if DNS_LABEL.is_match(text) {
        return problems;
    }
    problems.push(if DNS_SUBDOMAIN.is_match(text) {
        "must not contain dots".to_owned()
    } else {
        pattern_mismatch(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
             or '-', and must start and end with an alphanumeric character",
            &["my-name", "123-abc"],
            DNS_LABEL_PATTERN,
        )
    });
    problems
}

/// Returns the problems of a DNS-1035 label, such as a kind in lower case.
pub(crate) fn dns_1035_label_problems(text: &str) -> Vec<String> {
    let mut problems: Vec<String> =
        too_long(text, LABEL_BYTES_MAX, "characters").into_iter().collect();
    if !DNS_1035_LABEL.is_match(text) {
        problems.push(pattern_mismatch(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character",
            &["my-name", "abc-123"],
            DNS_1035_PATTERN,
        ));
    }
    problems
}

/// Returns the problems of a qualified name: optional subdomain, slash, name.
///
/// Keys of labels and annotations are qualified names, and so are finalizers.
pub(crate) fn qualified_name_problems(key: &str) -> Vec<String> {
    let words = "must consist of alphanumeric characters, '-', '_' or '.', and must start and \
                 end with an alphanumeric character";
    let shape =
        || pattern_mismatch(words, &["MyName", "my.name", "123-abc"], QUALIFIED_NAME_PATTERN);
    let mut problems = Vec::new();
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        ["", name] => {
            problems.push("prefix part must be non-empty".to_owned());
            name
        }
        [prefix, name] => {
            let of_prefix = too_long(prefix, SUBDOMAIN_BYTES_MAX, "bytes")
                .into_iter()
                .chain(dns_subdomain_mismatch(prefix));
            problems.extend(of_prefix.map(|problem| format!("prefix part {problem}")));
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')",
                shape()
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    }
    let long = too_long(name, LABEL_BYTES_MAX, "bytes");
    problems.extend(long.map(|problem| format!("name part {problem}")));
    if !QUALIFIED_NAME.is_match(name) {
        problems.push(format!("name part {}", shape()));
    }
    problems
}

/// Returns the problems of a label value.
pub(crate) fn label_value_problems(value: &str) -> Vec<String> {
    let mut problems: Vec<String> = too_long(value, LABEL_BYTES_MAX, "bytes").into_iter().collect();
    if !LABEL_VALUE.is_match(value) {
        problems.push(pattern_mismatch(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', \
             '_' or '.', and must start and end with an alphanumeric character",
            &["MyValue", "my_value", "12345"],
            LABEL_VALUE_PATTERN,
        ));
    }
    problems
}
