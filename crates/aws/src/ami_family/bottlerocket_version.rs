//! The Bottlerocket version of a class, which decides how instance storage is mounted.

use karpenter_api::ec2_nodeclass::{Ami, Ec2NodeClassSpec};

use super::alias::LATEST;

/// First version whose `apiclient ephemeral-storage bind` has default directories.
const DEFAULT_BIND_SINCE: (i64, i64) = (1, 46);

/// Returns the Bottlerocket version that the class runs, if a source names one.
///
/// Sources in order: the alias, the name of a selector term, a status AMI that a term selects by
/// id, any status AMI of Bottlerocket. `latest` is a version.
pub fn bottlerocket_version<'a>(spec: &'a Ec2NodeClassSpec, amis: &'a [Ami]) -> Option<&'a str> {
    let terms = || spec.ami_selector_terms.iter();
    let aliases = terms().filter_map(|term| term.alias.as_deref());
    let from_alias = || aliases.filter_map(version_of_alias).find(|version| !version.is_empty());
    let from_name = || terms().filter_map(|term| term.name.as_deref()).find_map(version_of_name);
    let from_id = || {
        let ids = terms().filter_map(|term| term.id.as_deref());
        ids.filter_map(|id| bottlerocket_names(amis).find(|(ami, _)| *ami == id))
            .find_map(|(_, name)| version_of_name(name))
    };
    let from_any = || bottlerocket_names(amis).find_map(|(_, name)| version_of_name(name));
    from_alias().or_else(from_name).or_else(from_id).or_else(from_any)
}

/// Whether this version mounts instance storage without explicit directories.
///
/// A version has three parts; an unknown one counts as old, because explicit directories work on
/// every version.
pub fn supports_default_bind(version: Option<&str>) -> bool {
    let Some(version) = version else { return false };
    if version == LATEST {
        return true;
    }
    let mut parts = version.trim_start_matches('v').split('.');
    let mut number = || parts.next()?.parse::<i64>().ok();
    let (Some(major), Some(minor)) = (number(), number()) else { return false };
    parts.next().is_some() && (major, minor) >= DEFAULT_BIND_SINCE
}

fn version_of_alias(alias: &str) -> Option<&str> {
    match alias.split('@').collect::<Vec<_>>()[..] {
        [_, version] => Some(version),
        _ => None,
    }
}

/// Returns the version in a name such as `bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-431fe75a`.
fn version_of_name(name: &str) -> Option<&str> {
    name.split('-').find(|part| part.starts_with('v') && part.contains('.'))
}

/// Ids and names of the AMIs that are Bottlerocket's by name.
fn bottlerocket_names(amis: &[Ami]) -> impl Iterator<Item = (&str, &str)> {
    amis.iter()
        .filter_map(|ami| Some((ami.id.as_str(), ami.name.as_deref()?)))
        .filter(|(_, name)| name.contains("bottlerocket"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_api::ec2_nodeclass::AmiSelectorTerm;

    #[test]
    fn storage_is_bound_without_directories_from_one_forty_six_on() {
        #[rustfmt::skip]
        let cases = [
            ("50/B15", Some("v1.45.0"),         false),
            ("50/B15", Some("v1.46.0"),         true),
            ("50/B15", Some("latest"),          true),
            ("50/B15", None,                    false),
            ("50/B23", Some("1.46"),            false),
            ("50/B23", Some("abc.def.ghi"),     false),
            ("50/B23", Some(""),                false),
            ("50/B15", Some("1.46.0"),          true),
            ("50/B15", Some("1.45.9"),          false),
            ("50/B15", Some("2.0.0"),           true),
            ("50/B15", Some("0.99.0"),          false),
            ("50/B15", Some("1.46.0-rc1"),      true), // only major and minor are numbers
            ("50/B15", Some("1.46x.0"),         false),
            ("50/B15", Some("99999999999999999999.0.0"), false),
        ];
        for (id, version, want) in cases {
            assert_eq!(supports_default_bind(version), want, "{id}: {version:?}");
        }
    }

    #[test]
    fn the_version_comes_from_alias_then_name_then_id_then_any_ami() {
        let ami = |id: &str, name: &str| Ami {
            id: id.to_owned(),
            name: Some(name.to_owned()),
            ..Ami::default()
        };
        let term = |alias: Option<&str>, name: Option<&str>, id: Option<&str>| AmiSelectorTerm {
            alias: alias.map(str::to_owned),
            name: name.map(str::to_owned),
            id: id.map(str::to_owned),
            ..AmiSelectorTerm::default()
        };
        let amis = [
            ami("ami-0", "al2023-v9.9.9"),
            ami("ami-1", "bottlerocket-aws-k8s-1.33-x86_64-v1.45.0-431fe75a"),
            ami("ami-2", "bottlerocket-aws-k8s-1.33-x86_64-v1.47.0-431fe75a"),
        ];
        let named = "bottlerocket-aws-k8s-1.33-x86_64-v1.44.0-431fe75a";
        #[rustfmt::skip]
        let cases = [
            (term(Some("bottlerocket@v1.20.4"), None, None),        Some("v1.20.4")),
            (term(Some("bottlerocket@latest"), Some(named), None),  Some("latest")),
            (term(Some("bottlerocket@1@2"), Some(named), None),     Some("v1.44.0")),
            (term(None, Some(named), Some("ami-2")),                Some("v1.44.0")),
            (term(None, Some("my-image"), Some("ami-2")),           Some("v1.47.0")),
            (term(None, None, Some("ami-0")),                       Some("v1.45.0")), // not Bottlerocket
            (term(None, None, None),                                Some("v1.45.0")),
        ];
        for (term, want) in cases {
            let spec =
                Ec2NodeClassSpec { ami_selector_terms: vec![term], ..Ec2NodeClassSpec::default() };
            let found = bottlerocket_version(&spec, &amis);
            assert_eq!(found, want, "50/B15: {:?}", spec.ami_selector_terms);
        }
        assert_eq!(bottlerocket_version(&Ec2NodeClassSpec::default(), &amis[..1]), None, "50/B15");
    }
}
