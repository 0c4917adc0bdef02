//! Stores requirement sets by number, and remembers every result about them.
//!
//! A solve checks the same few sets against each other again and again: may a pod that requires
//! `arch In [arm64]` join a NodeClaim in zone a? The plain algebra of
//! [`requirement`](crate::requirement) calculates each result once, on strings; from then on the
//! result is one look-up by two numbers. So there is no second algebra that could disagree with the
//! first.

use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

use crate::labels::HOSTNAME;
use crate::requirement::{Requirement, Requirements};

/// A label key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct KeyId(u32);

/// A requirement on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ReqId(u32);

/// A set of requirements, at most one per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SetId(u32);

/// A set of requirements, with the requirement on the hostname apart.
///
/// With the hostname in it, every node would have a set of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SplitRequirements {
    pub(super) set: SetId,
    pub(super) host: Option<ReqId>,
}

/// Which labels may be required that the node side does not define.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum UndefinedLabels {
    /// The well-known ones: templates, NodeClaims and offerings.
    WellKnown,
    /// None: existing nodes.
    Rejected,
}

/// All requirement sets of one solve.
#[derive(Clone, Debug)]
pub(super) struct RequirementStore<'a> {
    well_known: &'a BTreeSet<String>,
    keys: Vec<Key>,
    key_ids: FxHashMap<String, KeyId>,
    requirements: Vec<(KeyId, Requirement)>,
    requirement_ids: FxHashMap<Requirement, ReqId>,
    sets: Vec<Box<[ReqId]>>,
    set_ids: FxHashMap<Box<[ReqId]>, SetId>,
    intersections: FxHashMap<(ReqId, ReqId), ReqId>,
    agreements: FxHashMap<(ReqId, ReqId), bool>,
    tightened: FxHashMap<(SetId, ReqId), SetId>,
    joined: FxHashMap<(SetId, SetId), SetId>,
    compatible: FxHashMap<(SetId, SetId, UndefinedLabels), bool>,
}

#[derive(Clone, Debug)]
struct Key {
    name: String,
    is_well_known: bool,
}

impl<'a> RequirementStore<'a> {
    /// The set without any requirement.
    pub(super) const EMPTY: SetId = SetId(0);

    pub(super) fn new(well_known: &'a BTreeSet<String>) -> Self {
        let mut store = Self {
            well_known,
            keys: Vec::new(),
            key_ids: FxHashMap::default(),
            requirements: Vec::new(),
            requirement_ids: FxHashMap::default(),
            sets: Vec::new(),
            set_ids: FxHashMap::default(),
            intersections: FxHashMap::default(),
            agreements: FxHashMap::default(),
            tightened: FxHashMap::default(),
            joined: FxHashMap::default(),
            compatible: FxHashMap::default(),
        };
        store.set_of(Box::new([]));
        store
    }

    pub(super) fn well_known(&self) -> &'a BTreeSet<String> {
        self.well_known
    }

    pub(super) fn key(&mut self, name: &str) -> KeyId {
        if let Some(&id) = self.key_ids.get(name) {
            return id;
        }
        let id = KeyId(number(self.keys.len()));
        let is_well_known = self.well_known.contains(name);
        self.keys.push(Key { name: name.to_owned(), is_well_known });
        self.key_ids.insert(name.to_owned(), id);
        id
    }

    pub(super) fn key_name(&self, key: KeyId) -> &str {
        &self.keys[key.0 as usize].name
    }

    pub(super) fn requirement(&mut self, requirement: &Requirement) -> ReqId {
        if let Some(&id) = self.requirement_ids.get(requirement) {
            return id;
        }
        let id = ReqId(number(self.requirements.len()));
        let key = self.key(requirement.key());
        self.requirements.push((key, requirement.clone()));
        self.requirement_ids.insert(requirement.clone(), id);
        id
    }

    pub(super) fn get(&self, id: ReqId) -> &Requirement {
        &self.requirements[id.0 as usize].1
    }

    pub(super) fn key_of(&self, id: ReqId) -> KeyId {
        self.requirements[id.0 as usize].0
    }

    /// The requirements of a set, by key id.
    pub(super) fn members(&self, set: SetId) -> &[ReqId] {
        &self.sets[set.0 as usize]
    }

    /// The requirement of a set on a key.
    pub(super) fn find(&self, set: SetId, key: KeyId) -> Option<ReqId> {
        self.members(set).iter().copied().find(|&id| self.key_of(id) == key)
    }

    fn set_of(&mut self, mut members: Box<[ReqId]>) -> SetId {
        members.sort_by_key(|&id| self.key_of(id));
        if let Some(&id) = self.set_ids.get(&members) {
            return id;
        }
        let id = SetId(number(self.sets.len()));
        self.sets.push(members.clone());
        self.set_ids.insert(members, id);
        id
    }

    /// Returns the number of a set, with the hostname apart.
    pub(super) fn split(&mut self, requirements: &Requirements) -> SplitRequirements {
        let mut host = None;
        let mut members = Vec::with_capacity(requirements.len());
        for requirement in requirements.iter() {
            let id = self.requirement(requirement);
            if requirement.key() == HOSTNAME {
                host = Some(id);
            } else {
                members.push(id);
            }
        }
        SplitRequirements { set: self.set_of(members.into()), host }
    }

    /// Returns the number of a set with the hostname in it.
    pub(super) fn intern_with_hostname(&mut self, requirements: &Requirements) -> SetId {
        let members: Vec<_> = requirements.iter().map(|one| self.requirement(one)).collect();
        self.set_of(members.into())
    }

    /// The plain form of a set.
    pub(super) fn plain(&self, set: SetId) -> Requirements {
        self.members(set).iter().map(|&id| self.get(id).clone()).collect()
    }

    /// The plain form with the hostname.
    pub(super) fn plain_split(&self, split: SplitRequirements) -> Requirements {
        let mut plain = self.plain(split.set);
        plain.extend(split.host.map(|host| self.get(host).clone()));
        plain
    }

    pub(super) fn intersection(&mut self, a: ReqId, b: ReqId) -> ReqId {
        if a == b {
            return a;
        }
        if let Some(&id) = self.intersections.get(&(a, b)) {
            return id;
        }
        let meet = self.get(a).intersection(self.get(b));
        let id = self.requirement(&meet);
        self.intersections.insert((a, b), id);
        id
    }

    /// Returns whether two requirements on one key leave a value, or both allow absence.
    pub(super) fn agree(&mut self, a: ReqId, b: ReqId) -> bool {
        if a == b {
            return true;
        }
        if let Some(&answer) = self.agreements.get(&(a, b)) {
            return answer;
        }
        let (x, y) = (self.get(a), self.get(b));
        let answer = x.has_intersection(y) || (x.allows_absence() && y.allows_absence());
        self.agreements.insert((a, b), answer);
        answer
    }

    /// The set with one more requirement.
    pub(super) fn tighten(&mut self, set: SetId, by: ReqId) -> SetId {
        if let Some(&id) = self.tightened.get(&(set, by)) {
            return id;
        }
        let key = self.key_of(by);
        let mut members = self.members(set).to_vec();
        match members.iter().position(|&id| self.key_of(id) == key) {
            Some(position) => members[position] = self.intersection(by, members[position]),
            None => members.push(by),
        }
        let id = self.set_of(members.into());
        self.tightened.insert((set, by), id);
        id
    }

    /// The set with the requirement on a key replaced.
    pub(super) fn replace(&mut self, set: SetId, by: ReqId) -> SetId {
        let key = self.key_of(by);
        let mut members = self.members(set).to_vec();
        members.retain(|&id| self.key_of(id) != key);
        members.push(by);
        self.set_of(members.into())
    }

    /// Both sets together.
    pub(super) fn join(&mut self, a: SetId, b: SetId) -> SetId {
        if a == b || b == Self::EMPTY {
            return a;
        }
        if let Some(&id) = self.joined.get(&(a, b)) {
            return id;
        }
        let members = self.members(b).to_vec();
        let id = members.into_iter().fold(a, |set, member| self.tighten(set, member));
        self.joined.insert((a, b), id);
        id
    }

    /// Returns whether the node side `a` meets the requirements `b`.
    pub(super) fn compatible(&mut self, a: SetId, b: SetId, undefined: UndefinedLabels) -> bool {
        if b == Self::EMPTY {
            return true;
        }
        if let Some(&answer) = self.compatible.get(&(a, b, undefined)) {
            return answer;
        }
        let required = self.members(b).to_vec();
        let answer = required.iter().all(|&requirement| {
            let key = self.key_of(requirement);
            if let Some(have) = self.find(a, key) {
                self.agree(have, requirement)
            } else {
                let is_known = undefined == UndefinedLabels::WellKnown
                    && self.keys[key.0 as usize].is_well_known;
                is_known || self.get(requirement).allows_absence()
            }
        });
        self.compatible.insert((a, b, undefined), answer);
        answer
    }

    /// Returns whether a set requires a label that is not well known.
    ///
    /// A NodeClaim may get such a label through another pod's NotIn.
    pub(super) fn requires_custom_label(&self, set: SetId) -> bool {
        self.members(set).iter().any(|&id| {
            let key = self.key_of(id);
            !self.keys[key.0 as usize].is_well_known && !self.get(id).allows_absence()
        })
    }

    /// Returns the set `a` of a NodeClaim narrowed by `b`, if it meets `b`.
    pub(super) fn narrow(&mut self, a: SetId, b: SetId) -> Option<SetId> {
        self.compatible(a, b, UndefinedLabels::WellKnown).then(|| self.join(a, b))
    }

    /// Returns the set `a` of a NodeClaim narrowed by a requirement, if it meets it.
    pub(super) fn narrow_by(&mut self, a: SetId, by: ReqId) -> Option<SetId> {
        let key = self.key_of(by);
        let may = match self.find(a, key) {
            Some(have) => self.agree(have, by),
            None => self.keys[key.0 as usize].is_well_known || self.get(by).allows_absence(),
        };
        may.then(|| self.tighten(a, by))
    }
}

/// A position as an id.
pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("more distinct requirements than memory can hold")
}
