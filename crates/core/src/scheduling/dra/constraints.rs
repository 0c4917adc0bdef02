//! Devices of a claim that must have the same value of an attribute (rule 10).

use std::collections::BTreeSet;

use super::types::{Attribute, AttributeBinding, DeviceId, DeviceShape};

/// A matchAttribute constraint, with the value that the chosen devices share.
#[derive(Clone, Debug)]
pub(super) struct MatchAttribute<'a> {
    requests: &'a BTreeSet<String>,
    attribute: &'a str,
    members: usize,
    pin: Option<Pin>,
}

/// How the devices of a constraint agree. Values and bindings never mix.
#[derive(Clone, Debug)]
enum Pin {
    /// By having this value.
    Value(Attribute),
    /// By being bound to this device, whatever the value will be.
    Bound(DeviceId),
}

impl<'a> MatchAttribute<'a> {
    pub(super) fn new(requests: &'a BTreeSet<String>, attribute: &'a str) -> Self {
        Self { requests, attribute, members: 0, pin: None }
    }

    /// Returns whether the constraint covers a request, or an alternative of it.
    pub(super) fn applies_to(&self, request: &str, alternative: Option<&str>) -> bool {
        self.requests.is_empty()
            || self.requests.contains(request)
            || alternative.is_some_and(|alternative| {
                self.requests.contains(&format!("{request}/{alternative}"))
            })
    }

    /// Adds the device if it agrees with those added before. Returns whether it does.
    pub(super) fn add(
        &mut self,
        id: &DeviceId,
        shape: &DeviceShape,
        bindings: &[AttributeBinding],
    ) -> bool {
        let agrees = match (lookup(shape, self.attribute), &self.pin) {
            (Some(value), None) => {
                self.pin = Some(Pin::Value(value.clone()));
                true
            }
            (Some(value), Some(Pin::Value(pinned))) => value == pinned,
            (None, None) => {
                let is_bound = !bound_to(id, self.attribute, bindings).is_empty();
                if is_bound {
                    self.pin = Some(Pin::Bound(id.clone()));
                }
                is_bound
            }
            (None, Some(Pin::Bound(first))) => {
                bound_to(first, self.attribute, bindings).contains(id)
            }
            (Some(_), Some(Pin::Bound(_))) | (None, Some(Pin::Value(_))) => false,
        };
        self.members += usize::from(agrees);
        agrees
    }

    /// Removes the device that was added last.
    pub(super) fn remove(&mut self) {
        self.members = self.members.saturating_sub(1);
        if self.members == 0 {
            self.pin = None;
        }
    }
}

/// Returns the value of an attribute.
///
/// A device may name an attribute of its own driver without the domain.
fn lookup<'s>(shape: &'s DeviceShape, attribute: &str) -> Option<&'s Attribute> {
    shape.attributes.get(attribute).or_else(|| {
        let (domain, name) = attribute.split_once('/')?;
        (domain == &*shape.driver).then(|| shape.attributes.get(name))?
    })
}

/// The device and all that are bound to it, directly or by way of others; empty if it is not bound
/// to any.
fn bound_to<'b>(
    id: &'b DeviceId,
    attribute: &str,
    bindings: &'b [AttributeBinding],
) -> BTreeSet<&'b DeviceId> {
    let groups = || bindings.iter().filter(|group| group.attribute == attribute);
    let mut bound = BTreeSet::from([id]);
    loop {
        let known = bound.len();
        for group in groups().filter(|group| group.devices.len() > 1) {
            if group.devices.iter().any(|device| bound.contains(device)) {
                bound.extend(&group.devices);
            }
        }
        match bound.len() {
            1 => return BTreeSet::new(),
            grown if grown == known => return bound,
            _ => {}
        }
    }
}
