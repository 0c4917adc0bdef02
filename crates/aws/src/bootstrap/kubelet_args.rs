//! Command line flags of the kubelet for AL2 and Windows (spec 50 §3.3).

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use k8s_openapi::api::core::v1::Taint;
use karpenter_api::grammar::format_duration;
use karpenter_api::taints;

use super::BootstrapInput;

/// Returns all flags, joined by one space.
pub(super) fn kubelet_args(input: &BootstrapInput<'_>) -> String {
    let kubelet = input.kubelet.managed();
    let grace_periods: BTreeMap<_, _> = kubelet
        .eviction_soft_grace_period
        .iter()
        .map(|(signal, period)| (signal.clone(), format_duration(*period)))
        .collect();
    let flags = [
        node_labels_flag(input.labels),
        Some(taints_flag(input.taints)),
        number_flag("--max-pods", input.kubelet.max_pods()),
        number_flag("--pods-per-core", kubelet.pods_per_core),
        map_flag("--system-reserved", &kubelet.system_reserved, '='),
        map_flag("--kube-reserved", &kubelet.kube_reserved, '='),
        map_flag("--eviction-hard", &kubelet.eviction_hard, '<'),
        map_flag("--eviction-soft", &kubelet.eviction_soft, '<'),
        map_flag("--eviction-soft-grace-period", &grace_periods, '='),
        number_flag("--eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period),
        number_flag("--image-gc-high-threshold", kubelet.image_gc_high_threshold_percent),
        number_flag("--image-gc-low-threshold", kubelet.image_gc_low_threshold_percent),
        number_flag("--cpu-cfs-quota", kubelet.cpu_cfs_quota),
    ];
    flags.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Returns the flag with the labels; `None` without labels.
pub(super) fn node_labels_flag(labels: &BTreeMap<String, String>) -> Option<String> {
    map_flag("--node-labels", labels, '=')
}

fn taints_flag(all: &[Taint]) -> String {
    let texts: Vec<_> = all.iter().map(taints::display).collect();
    format!("--register-with-taints={}", quote(&texts.join(",")))
}

fn map_flag(flag: &str, entries: &BTreeMap<String, String>, separator: char) -> Option<String> {
    if entries.is_empty() {
        return None;
    }
    let texts: Vec<_> =
        entries.iter().map(|(key, value)| format!("{key}{separator}{value}")).collect();
    Some(format!("{flag}={}", quote(&texts.join(","))))
}

fn number_flag(flag: &str, value: Option<impl Display>) -> Option<String> {
    value.map(|value| format!("{flag}={value}"))
}

/// Returns the text in double quotes with Go's escapes (`%q`).
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{07}' => quoted.push_str("\\a"),
            '\u{08}' => quoted.push_str("\\b"),
            '\u{0c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{0b}' => quoted.push_str("\\v"),
            c if is_printable(c) => quoted.push(c),
            c => {
                let code = u32::from(c);
                // Writing to a String cannot fail.
                let _ = match code {
                    0..=0x7f => write!(quoted, "\\x{code:02x}"),
                    0x80..=0xffff => write!(quoted, "\\u{code:04x}"),
                    _ => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Whether Go prints the character as it is inside quotes.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    // A letter in front keeps the standard library from escaping a combining mark.
    let pair: String = ['a', c].into_iter().collect();
    pair.escape_debug().nth(1) == Some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_as_go_quotes_them() {
        #[rustfmt::skip]
        let cases = [
            ("a=b,c=d",      r#""a=b,c=d""#),
            (r#"say "hi" \"#, r#""say \"hi\" \\""#),
            ("a\tb\n\u{7f}\u{1}", r#""a\tb\n\x7f\x01""#),
            ("é\u{200b}",    r#""é\u200b""#),
        ];
        for (text, want) in cases {
            assert_eq!(quote(text), want, "{text:?}");
        }
    }
}
