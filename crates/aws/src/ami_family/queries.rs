//! DescribeImages requests for the terms of a class (spec 50 §2.2).

use std::collections::BTreeMap;

use karpenter_api::ec2_nodeclass::AmiSelectorTerm;

use super::AmiVariant;

/// Owners of images that a term selects by name alone.
const DEFAULT_OWNERS: [&str; 2] = ["self", "amazon"];

/// One DescribeImages request. Images of any request count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AmiQuery {
    /// Filters, all of which an image has to meet; each holds its values.
    pub filters: Vec<(String, Vec<String>)>,
    /// Accounts or aliases of owners; empty sends none.
    pub owners: Vec<String>,
    /// Variants of images of an alias, by id; other images fit any type.
    pub variants: BTreeMap<String, Vec<AmiVariant>>,
}

impl AmiQuery {
    /// Returns the filters to send: those of the query, and available images only.
    pub fn sent_filters(&self) -> Vec<(String, Vec<String>)> {
        let available = filter("state", "available");
        self.filters.iter().cloned().chain([available]).collect()
    }
}

/// Returns the query for the images that an alias resolved to, by id.
///
/// `None` if no parameter resolved; the alias then has no images.
pub fn alias_query(variants: BTreeMap<String, Vec<AmiVariant>>) -> Option<AmiQuery> {
    let ids: Vec<_> = variants.keys().cloned().collect();
    let query = AmiQuery { filters: vec![image_ids(ids)], owners: Vec::new(), variants };
    (!query.variants.is_empty()).then_some(query)
}

/// Returns the queries for terms without an alias.
///
/// `parameter_ids` are the images of the terms with an SSM parameter. Ids of all terms share one
/// query, the last one.
pub fn term_queries(terms: &[AmiSelectorTerm], parameter_ids: &[String]) -> Vec<AmiQuery> {
    let mut ids: Vec<_> = terms.iter().filter_map(|term| term.id.clone()).collect();
    ids.extend_from_slice(parameter_ids);
    let selects_itself =
        |term: &&AmiSelectorTerm| term.id.is_none() && term.ssm_parameter.is_none();
    let mut queries: Vec<_> = terms.iter().filter(selects_itself).map(term_query).collect();
    if !ids.is_empty() {
        queries.push(AmiQuery { filters: vec![image_ids(ids)], ..AmiQuery::default() });
    }
    queries
}

fn term_query(term: &AmiSelectorTerm) -> AmiQuery {
    let owners: Vec<_> = match (&term.owner, &term.name) {
        (Some(owner), _) => vec![owner.clone()],
        (None, Some(_)) => DEFAULT_OWNERS.map(str::to_owned).into(),
        (None, None) => Vec::new(),
    };
    let name = term.name.iter().map(|name| filter("name", name));
    let tags = term.tags.iter().flatten().map(|(key, value)| match value.as_str() {
        "*" => filter("tag-key", key),
        value => filter(&format!("tag:{key}"), value),
    });
    AmiQuery { filters: name.chain(tags).collect(), owners, variants: BTreeMap::new() }
}

fn filter(name: &str, value: &str) -> (String, Vec<String>) {
    (name.to_owned(), vec![value.to_owned()])
}

fn image_ids(ids: Vec<String>) -> (String, Vec<String>) {
    ("image-id".to_owned(), ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn query(filters: &[(&str, &[&str])], owners: &[&str]) -> AmiQuery {
        let filters = filters.iter().map(|(name, values)| ((*name).to_owned(), owned(values)));
        AmiQuery { filters: filters.collect(), owners: owned(owners), variants: BTreeMap::new() }
    }

    fn tags(of: &[(&str, &str)]) -> AmiSelectorTerm {
        let tags = of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        AmiSelectorTerm { tags: Some(tags.collect()), ..AmiSelectorTerm::default() }
    }

    #[test]
    fn terms_become_queries() {
        let text = |text: &str| Some(text.to_owned());
        let name = |name: &str| AmiSelectorTerm { name: text(name), ..AmiSelectorTerm::default() };
        let owner =
            |owner: &str| AmiSelectorTerm { owner: text(owner), ..AmiSelectorTerm::default() };
        let id = |id: &str| AmiSelectorTerm { id: text(id), ..AmiSelectorTerm::default() };
        let parameter = AmiSelectorTerm { ssm_parameter: text("/p"), ..AmiSelectorTerm::default() };
        #[rustfmt::skip]
        let cases = [
            ("50/N8",  vec![name("n")],                    vec![query(&[("name", &["n"])], &["self", "amazon"])]),
            ("50/N8",  vec![AmiSelectorTerm { owner: text("1"), ..name("n") }],
                                                           vec![query(&[("name", &["n"])], &["1"])]),
            ("50/N9",  vec![owner("1"), owner("2")],       vec![query(&[], &["1"]), query(&[], &["2"])]),
            ("50/N10", vec![id("ami-1"), id("ami-2")],     vec![query(&[("image-id", &["ami-1", "ami-2"])], &[])]),
            ("50/N18", vec![tags(&[("a", "b"), ("c", "d")])],
                                                           vec![query(&[("tag:a", &["b"]), ("tag:c", &["d"])], &[])]),
            ("50/N18", vec![tags(&[("a", "b")]), tags(&[("c", "d")])],
                                                           vec![query(&[("tag:a", &["b"])], &[]), query(&[("tag:c", &["d"])], &[])]),
            ("50/N18", vec![tags(&[("a", "*")])],          vec![query(&[("tag-key", &["a"])], &[])]),
            ("50/N10", vec![id("ami-1"), name("n")],
                                                           vec![query(&[("name", &["n"])], &["self", "amazon"]), query(&[("image-id", &["ami-1"])], &[])]),
            ("50/N11", vec![parameter.clone()],            vec![]), // not found
        ];
        for (case, terms, want) in cases {
            assert_eq!(term_queries(&terms, &[]), want, "{case}: {terms:?}");
        }
        let found = term_queries(&[parameter, id("ami-1")], &owned(&["ami-9"]));
        assert_eq!(found, [query(&[("image-id", &["ami-1", "ami-9"])], &[])], "50/N10");
    }

    #[test]
    fn only_available_images_are_listed() {
        let sent = query(&[("image-id", &["ami-1"])], &[]).sent_filters();
        let want = query(&[("image-id", &["ami-1"]), ("state", &["available"])], &[]);
        assert_eq!(sent, want.filters, "50/N10, 50/N16");
    }

    #[test]
    fn the_images_of_an_alias_are_listed_by_id() {
        let variants = BTreeMap::from([
            ("ami-1".to_owned(), vec![AmiVariant::Standard]),
            ("ami-2".to_owned(), vec![AmiVariant::Neuron, AmiVariant::Nvidia]),
        ]);
        let query = alias_query(variants).unwrap();
        assert_eq!(query.filters, [image_ids(owned(&["ami-1", "ami-2"]))], "50/N2");
        assert!(query.owners.is_empty());
        assert_eq!(alias_query(BTreeMap::new()), None, "50/N5: no parameter resolved");
    }
}
