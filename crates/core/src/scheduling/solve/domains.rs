//! Numbers the values of one topology key.

use rustc_hash::FxHashMap;

use super::requirement_store::{KeyId, ReqId, RequirementStore};
use crate::bit_set::BitSet;
use crate::requirement::Requirement;

/// The domains of a topology key that any group knows.
///
/// Numbers are given in order of appearance and never change.
#[derive(Clone, Debug)]
pub(super) struct Domains {
    pub(super) key: KeyId,
    names: Vec<String>,
    numbers: FxHashMap<String, usize>,
    /// By set of domains: the requirement `key In [domains]`.
    requirements: FxHashMap<BitSet, ReqId>,
    /// The domains that a requirement allows; cleared when a domain is added.
    allowed: FxHashMap<ReqId, BitSet>,
}

impl Domains {
    pub(super) fn new(key: KeyId) -> Self {
        Self {
            key,
            names: Vec::new(),
            numbers: FxHashMap::default(),
            requirements: FxHashMap::default(),
            allowed: FxHashMap::default(),
        }
    }

    pub(super) fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len();
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        self.allowed.clear();
        self.requirements.clear();
        number
    }

    pub(super) fn name(&self, number: usize) -> &str {
        &self.names[number]
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the domains that a requirement allows; all of them without one.
    pub(super) fn allowed(
        &mut self,
        requirement: Option<ReqId>,
        store: &RequirementStore<'_>,
    ) -> BitSet {
        let Some(requirement) = requirement else { return BitSet::full(self.len()) };
        let names = &self.names;
        let answer = self.allowed.entry(requirement).or_insert_with(|| {
            let plain = store.get(requirement);
            let mut bits = BitSet::empty(names.len());
            for (number, _) in names.iter().enumerate().filter(|(_, name)| plain.has(name)) {
                bits.insert(number);
            }
            bits
        });
        answer.clone()
    }

    /// Returns the requirement `key In [domains]`.
    pub(super) fn requirement_for(
        &mut self,
        domains: &BitSet,
        store: &mut RequirementStore<'_>,
    ) -> ReqId {
        if let Some(&id) = self.requirements.get(domains) {
            return id;
        }
        let names = domains.iter().map(|number| self.names[number].as_str());
        let requirement = Requirement::in_values(store.key_name(self.key), names);
        let id = store.requirement(&requirement);
        self.requirements.insert(domains.clone(), id);
        id
    }
}
