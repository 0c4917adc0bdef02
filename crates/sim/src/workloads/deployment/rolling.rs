//! Computes the sizes of ReplicaSets during a rollout.

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::super::int_or_percent::scaled_value;
use super::super::pods::created;
use super::super::replica_set::spec_replicas;
use super::{Rollout, revision};

fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default()
}

impl Rollout<'_> {
    /// How many pods there may be too many, and how many may be missing. One of both is above
    /// zero, or nothing would ever move.
    fn limits(&self) -> (i32, i32) {
        let rolling =
            self.spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let replicas = self.replicas();
        let resolved =
            |value, round_up| scaled_value(value, replicas, round_up).unwrap_or_default().max(0);
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
        let surge = surge.map_or(0, |value| resolved(value, true));
        let missing = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let missing = missing.map_or(0, |value| resolved(value, false));
        if surge == 0 && missing == 0 { (0, 1) } else { (surge, missing) }
    }

    pub(super) fn max_surge(&self) -> i32 {
        if self.is_rolling() { self.limits().0 } else { 0 }
    }

    pub(super) fn max_unavailable(&self) -> i32 {
        let replicas = self.replicas();
        if self.is_rolling() && replicas > 0 { self.limits().1.min(replicas) } else { 0 }
    }

    /// Sets a size, and notes for which size of the Deployment that is.
    pub(super) fn resize(&mut self, index: usize, replicas: i32) {
        let (desired, most) = (self.replicas(), self.replicas().saturating_add(self.max_surge()));
        let set = &mut self.sets[index];
        if let Some(spec) = &mut set.spec {
            spec.replicas = Some(replicas);
        }
        revision::annotate_sizes(set, desired, most);
    }

    /// The new one grows as far as the surge allows, or else the old ones shrink as far as
    /// availability allows. Returns the new one if it has to be made.
    pub(super) fn roll(&mut self) -> Option<ReplicaSet> {
        let Some(new) = self.new else {
            return Some(self.new_set(self.new_set_size(0)));
        };
        let size = spec_replicas(&self.sets[new]);
        let replicas = self.replicas();
        let target = if size > replicas { replicas } else { self.new_set_size(size) };
        if target == size {
            self.shrink_old(new);
        } else {
            self.resize(new, target);
        }
        None
    }

    fn new_set_size(&self, size: i32) -> i32 {
        let most = self.replicas().saturating_add(self.max_surge());
        let remaining = (most - self.total()).max(0);
        size + remaining.min(self.replicas() - size).max(0)
    }

    fn shrink_old(&mut self, new: usize) {
        let old_total: i32 = self.old().map(|index| spec_replicas(&self.sets[index])).sum();
        if old_total == 0 {
            return;
        }
        let least = self.replicas() - self.max_unavailable();
        let new_missing = spec_replicas(&self.sets[new]) - available(&self.sets[new]);
        let mut spare = self.total() - least - new_missing;
        if spare <= 0 {
            return;
        }
        // First those that are not available anyway: removing them loses nothing.
        for index in self.old() {
            let size = spec_replicas(&self.sets[index]);
            let unhealthy = (size - available(&self.sets[index])).max(0).min(size).min(spare);
            if unhealthy > 0 {
                self.resize(index, size - unhealthy);
                spare -= unhealthy;
            }
        }
        let available_now: i32 = self.sets.iter().map(available).sum();
        let mut spare = available_now - least;
        for index in self.old() {
            let size = spec_replicas(&self.sets[index]);
            let fewer = size.min(spare);
            if fewer > 0 {
                self.resize(index, size - fewer);
                spare -= fewer;
            }
        }
    }

    /// The number of replicas has changed: in the middle of a rollout all ReplicaSets grow or
    /// shrink in proportion, so that the rollout is as far as before.
    pub(super) fn scale(&mut self) {
        let active: Vec<usize> =
            (0..self.sets.len()).filter(|index| spec_replicas(&self.sets[*index]) > 0).collect();
        if active.len() <= 1 {
            let latest = self.new.or_else(|| self.old().last());
            if let Some(only) = active.first().copied().or(latest) {
                self.resize(only, self.replicas());
            }
            return;
        }
        if self.new.is_some_and(|new| self.is_saturated(new)) {
            for index in self.old().filter(|index| active.contains(index)) {
                self.resize(index, 0);
            }
            return;
        }
        if self.is_rolling() {
            self.scale_in_proportion(active);
        }
    }

    fn is_saturated(&self, new: usize) -> bool {
        let set = &self.sets[new];
        spec_replicas(set) == self.replicas()
            && revision::desired_replicas(set) == Some(self.replicas())
            && available(set) == self.replicas()
    }

    fn scale_in_proportion(&mut self, mut active: Vec<usize>) {
        let replicas = self.replicas();
        let allowed = if replicas > 0 { replicas.saturating_add(self.max_surge()) } else { 0 };
        let to_add = allowed - self.total();
        // The largest first; of equal ones the newer when growing, the older when shrinking.
        active.sort_by(|a, b| {
            let (a, b) = (&self.sets[*a], &self.sets[*b]);
            let by_age = (created(&a.metadata), &a.metadata.name)
                .cmp(&(created(&b.metadata), &b.metadata.name));
            let by_age = if to_add > 0 { by_age.reverse() } else { by_age };
            spec_replicas(b).cmp(&spec_replicas(a)).then(by_age)
        });
        let mut added = 0;
        let mut sizes: Vec<i32> = Vec::with_capacity(active.len());
        for index in &active {
            let set = &self.sets[*index];
            let share = if to_add == added { 0 } else { self.proportional_change(set) };
            let left = to_add - added;
            let share = if to_add > 0 { share.min(left) } else { share.max(left) };
            sizes.push(spec_replicas(set) + share);
            added += share;
        }
        if let Some(largest) = sizes.first_mut() {
            *largest = (*largest + to_add - added).max(0);
        }
        for (index, size) in active.into_iter().zip(sizes) {
            self.resize(index, size);
        }
    }

    /// Returns the change of a ReplicaSet's size that keeps its share.
    fn proportional_change(&self, set: &ReplicaSet) -> i32 {
        let replicas = self.replicas();
        let size = i64::from(spec_replicas(set));
        if replicas == 0 {
            return -spec_replicas(set);
        }
        let most = i64::from(replicas.saturating_add(self.max_surge()));
        let status = self.deployment.status.as_ref();
        let whole = revision::max_replicas(set)
            .filter(|most| *most != 0)
            .or_else(|| status.and_then(|status| status.replicas))
            .map_or(0, i64::from);
        if whole <= 0 {
            return 0;
        }
        // Rounded half up, as all are above zero.
        let share = (2 * size * most + whole) / (2 * whole);
        i32::try_from(share - size).unwrap_or_default()
    }
}
