//! User data that cannot be rendered: one clear line each, and no panic.

use super::*;

fn error(family: AmiFamily, user_data: &str) -> String {
    let error = Example::of(family).with_user_data(user_data).render().unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    text
}

#[test]
fn broken_archives_are_errors_on_al2_and_al2023() {
    let head = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n";
    let with_head = |body: &str| format!("{head}{body}");
    #[rustfmt::skip]
    let cases = [
        // user data                                                   part of the message
        ("MIME-Version: 1.0\n\nbody".to_owned(),                       "does not define a content-type header"),
        (format!("\n{}", with_head("\n--B\n\nx\n--B--\n")),            "without blank lines"),
        ("Content-Type: text/x-shellscript\n\n#!/bin/sh\n".to_owned(), "not in multipart MIME format"),
        ("Content-Type: multipart/mixed\n\n--B\n".to_owned(),          "boundary is empty"),
        ("Content-Type: multipart/mixed; boundary=//\n".to_owned(),    "does not define a content-type header"),
        (with_head("no colon\n\n--B--\n"),                             "malformed MIME header in line 3"),
        (with_head(""),                                                "no line is the boundary"),
        (with_head("\n--OTHER\n\nbody\n--OTHER--\n"),                  "no line is the boundary"),
        (with_head("\n--B\nContent-Type: a\n\nbody\n"),                "the last part has no end"),
        (with_head("\n--B\nContent-Type: a"),                          "the last part has no end"),
        (with_head("\n--B\n\nbody\n--B junk\n"),                       "line 7 begins with the boundary"),
        (with_head("\n--B\n\nbody\n--B--junk\n"),                      "line 7 begins with the boundary"),
        (with_head("\n--B\nbad@name: x\n\nbody\n--B--\n"),             "malformed MIME header in line 5"),
        (with_head("\n--B\n folded first\n\nbody\n--B--\n"),           "malformed MIME header in line 5"),
        (with_head("\n--B\nContent-Transfer-Encoding: quoted-printable\n\na= b=\u{1}\n--B--\n"), "line 7 is not quoted-printable"),
    ];
    for (user_data, want) in cases {
        for family in [AmiFamily::Al2, AmiFamily::Al2023] {
            let found = error(family, &user_data);
            assert!(found.starts_with("parsing custom UserData, "), "{user_data:?}: {found}");
            assert!(found.contains(want), "50 §3.4 on {family:?}: {user_data:?}: {found}");
        }
    }
}

#[test]
fn nul_bytes_are_named_by_line() {
    for family in [AmiFamily::Al2, AmiFamily::Al2023, AmiFamily::Windows2019] {
        let want = "spec.userData: line 2 has a NUL byte; scripts and YAML must be plain text";
        assert_eq!(error(family, "#!/bin/sh\necho\0"), want, "{family:?}");
    }
}

#[test]
fn a_part_must_not_end_the_archive() {
    let nested = "#!/bin/sh\n--//--\necho never\n";
    for family in [AmiFamily::Al2, AmiFamily::Al2023] {
        let found = error(family, nested);
        assert!(found.starts_with("spec.userData: line 2 of a part is --//--"), "{found}");
    }
    // In text that only mentions the line, nothing ends.
    let quoted = "#!/bin/sh\necho '--//--'\n";
    assert!(Example::of(AmiFamily::Al2).with_user_data(quoted).render().is_ok());
}

#[test]
fn a_ca_bundle_that_is_not_base64_is_an_error_on_al2023() {
    let mut example = Example::of(AmiFamily::Al2023);
    example.ca_bundle = Some("not base64".to_owned());
    let error = example.render().unwrap_err();
    assert_eq!(error, BootstrapError::CaBundle);
    assert!(!error.to_string().contains("not base64 "), "60/S14: without the bundle");
    example.ca_bundle = Some("Q0\nEK\r\n".to_owned());
    let config = example.node_config();
    assert_eq!(config["spec"]["cluster"]["certificateAuthority"], "Q0EK");
    for absent in [None, Some(String::new())] {
        example.ca_bundle = absent;
        let cluster = example.node_config()["spec"]["cluster"].clone();
        assert!(cluster.get("certificateAuthority").is_none(), "50 §3.5");
    }
}

#[test]
fn a_setting_of_the_wrong_type_is_an_error() {
    let kubelet = serde_json::json!({ "podsPerCore": "ten" });
    for family in AmiFamily::ALL {
        let error = Example::of(family).with_kubelet(kubelet.clone()).render().unwrap_err();
        assert_eq!(error.to_string(), "spec.kubelet.podsPerCore is not of its type", "{family:?}");
    }
}

#[test]
fn without_a_ca_al2_and_windows_omit_its_option() {
    let without = |family| Example { ca_bundle: None, ..Example::of(family) }.text();
    let al2 = without(AmiFamily::Al2);
    assert!(al2.contains("'https://api.demo'  \\\n--dns-cluster-ip"), "50 §3.4: {al2}");
    assert!(!without(AmiFamily::Windows2022).contains("Base64ClusterCA"), "50 §3.7");
}

#[test]
fn large_user_data_is_rendered() {
    let script = format!("#!/bin/bash\n{}", "echo twenty kilobytes\n".repeat(1_000));
    let toml = format!("[settings.motd]\ntext = \"{}\"\n", "x".repeat(20_000));
    for family in AmiFamily::ALL {
        let text = if family == AmiFamily::Bottlerocket { &toml } else { &script };
        let data = Example::of(family).with_user_data(text).render().unwrap();
        assert!(data.size_bytes() > USER_DATA_BYTES_MAX, "50 §4.3.1: never enforced locally");
        assert!(data.is_near_limit(), "{family:?}");
    }
}

#[test]
fn carriage_returns_are_removed_from_archives_only() {
    let script = "#!/bin/bash\r\necho one\r\n";
    for family in [AmiFamily::Al2, AmiFamily::Al2023] {
        let text = Example::of(family).with_user_data(script).text();
        assert!(!text.contains('\r') && text.contains("#!/bin/bash\necho one\n"), "50 §3.4");
    }
    for family in [AmiFamily::Windows2022, AmiFamily::Custom] {
        let text = Example::of(family).with_user_data(script).text();
        assert!(text.contains(script), "50 §3.7: {family:?}");
    }
}
