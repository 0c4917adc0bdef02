//! Amounts of resources in the whole numbers that kube-scheduler counts with.

use karpenter_core::resources::{CPU, MEMORY, PODS, Quantity, Resources};

const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// How much a pod takes, or a node has. Pods are counted apart, since each is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Amounts {
    /// Thousandths of a core.
    pub cpu_millis: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// Everything else by name, sorted, none of it zero: devices, huge pages.
    pub others: Vec<(String, i64)>,
}

impl Amounts {
    /// The amounts of a list, rounded up.
    pub fn of(resources: &Resources) -> Self {
        let known = [CPU, MEMORY, EPHEMERAL_STORAGE, PODS];
        let others = resources.iter().filter(|(name, _)| !known.contains(name));
        let others = others.map(|(name, amount)| (name.to_owned(), units(amount)));
        Self {
            cpu_millis: whole(resources.amount(CPU).millis()),
            memory: units(resources.amount(MEMORY)),
            ephemeral_storage: units(resources.amount(EPHEMERAL_STORAGE)),
            others: others.filter(|(_, amount)| *amount != 0).collect(),
        }
    }

    /// The amount of one of the others.
    pub fn other(&self, name: &str) -> i64 {
        match self.others.binary_search_by(|(known, _)| known.as_str().cmp(name)) {
            Ok(at) => self.others[at].1,
            Err(_) => 0,
        }
    }

    /// Adds what a pod takes.
    pub fn add(&mut self, more: &Self) {
        self.change(more, i64::saturating_add);
    }

    /// Takes off what a pod took.
    pub fn subtract(&mut self, less: &Self) {
        self.change(less, i64::saturating_sub);
    }

    fn change(&mut self, by: &Self, op: fn(i64, i64) -> i64) {
        self.cpu_millis = op(self.cpu_millis, by.cpu_millis);
        self.memory = op(self.memory, by.memory);
        self.ephemeral_storage = op(self.ephemeral_storage, by.ephemeral_storage);
        for (name, amount) in &by.others {
            match self.others.binary_search_by(|(known, _)| known.cmp(name)) {
                Ok(at) => self.others[at].1 = op(self.others[at].1, *amount),
                Err(at) => self.others.insert(at, (name.clone(), op(0, *amount))),
            }
        }
        if !by.others.is_empty() {
            self.others.retain(|(_, amount)| *amount != 0);
        }
    }

    /// Whether nothing is requested, so that only the number of pods counts.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// How many pods a node takes.
pub(super) fn allowed_pods(allocatable: &Resources) -> i64 {
    units(allocatable.amount(PODS))
}

fn units(amount: Quantity) -> i64 {
    whole(amount.units())
}

fn whole(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}
