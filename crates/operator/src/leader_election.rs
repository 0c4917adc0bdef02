//! Leader election on a Lease (spec 40 §7.5): one of several processes works.
//!
//! ```text
//! waiting ──the lease is free, or was not renewed for its duration──▶ leading
//! leading ──could not renew for the renew deadline, or another process holds it──▶ lost
//! leading ──release──▶ the lease is free at once
//! ```
//!
//! A candidate judges renewals by when it observes a change of the record, on its own clock: clocks
//! of hosts may differ. Invariant: `renew deadline` < `duration`, so a leader that loses the lease
//! notices before another process can acquire it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tracing::{error, info};

use crate::client::error_chain;
use crate::clock::Clock;
use crate::harness::ReconcileError;
use crate::rng::SeededRng;

#[cfg(test)]
mod tests;

/// The lease to hold and the times of the election.
#[derive(Clone, Debug)]
pub struct LeaderElectionConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// The holder identity; unique among all processes.
    pub identity: String,
    /// How long a lease is valid without renewal.
    pub lease_duration: Duration,
    /// How long a leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// The pause between two attempts.
    pub retry_period: Duration,
}

impl LeaderElectionConfig {
    /// With upstream's times.
    pub fn new(namespace: &str, name: &str, identity: String) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Acquires, renews and releases a Lease.
#[derive(Debug)]
pub struct LeaderElector {
    config: LeaderElectionConfig,
    api: Api<Lease>,
    clock: Arc<dyn Clock>,
    rng: SeededRng,
    /// The last observed record of the lease, and when it last changed.
    observed_record: Option<(LeaseSpec, Timestamp)>,
}

impl LeaderElector {
    /// Creates a candidate. Its client should not share a rate limit with others: a busy process
    /// must not lose its lease.
    pub fn new(
        config: LeaderElectionConfig,
        client: Client,
        clock: Arc<dyn Clock>,
        rng: SeededRng,
    ) -> Self {
        let api = Api::namespaced(client, &config.namespace);
        Self { config, api, clock, rng, observed_record: None }
    }

    /// Waits until we are the leader.
    pub async fn acquire(&mut self) {
        let lease = format!("{}/{}", self.config.namespace, self.config.name);
        info!(lease, "attempting to acquire leader lease...");
        let mut last_error = None;
        loop {
            match self.try_acquire_or_renew().await {
                Ok(true) => break,
                Ok(false) => last_error = None,
                Err(error) => {
                    // Logged once per cause: the candidate retries every two seconds for as long as
                    // it takes.
                    let text = error_chain(&error);
                    if last_error.as_ref() != Some(&text) {
                        error!(error = text, lease, "error retrieving resource lock");
                        last_error = Some(text);
                    }
                }
            }
            // Spread out, so that candidates do not come at the same time.
            let pause = self.config.retry_period.mul_f64(1.0 + 1.2 * self.rng.f64());
            self.clock.sleep(pause).await;
        }
        info!(lease, "successfully acquired lease");
    }

    /// Renews the lease and returns when that fails.
    pub async fn renew_until_lost(&mut self) {
        loop {
            self.clock.sleep(self.config.retry_period).await;
            let deadline = self.clock.sleep(self.config.renew_deadline);
            let is_renewed = match select(Box::pin(self.renew()), deadline).await {
                Either::Left((is_leader, _)) => is_leader,
                Either::Right(_) => false,
            };
            if !is_renewed {
                let lease = format!("{}/{}", self.config.namespace, self.config.name);
                error!(lease, "failed to renew lease");
                return;
            }
        }
    }

    /// Frees the lease for the next candidate. Best effort: it expires otherwise.
    pub async fn release(&mut self) -> Result<(), ReconcileError> {
        let Some(mut lease) = self.api.get_opt(&self.config.name).await? else { return Ok(()) };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.config.identity) {
            return Ok(());
        }
        let now = MicroTime(self.clock.now());
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.acquire_time = Some(now.clone());
        spec.renew_time = Some(now);
        self.api.replace(&self.config.name, &PostParams::default(), &lease).await?;
        Ok(())
    }

    /// Tries until the lease is renewed, or until another process is the leader.
    async fn renew(&mut self) -> bool {
        loop {
            match self.try_acquire_or_renew().await {
                Ok(is_leader) => return is_leader,
                Err(_) => self.clock.sleep(self.config.retry_period).await,
            }
        }
    }

    /// Acquires or renews the lease if allowed. Returns whether it is ours.
    async fn try_acquire_or_renew(&mut self) -> Result<bool, ReconcileError> {
        let Some(mut lease) = self.api.get_opt(&self.config.name).await? else {
            return self.create_lease().await;
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let now = self.clock.now();
        if self.observed_record.as_ref().is_none_or(|(seen, _)| *seen != spec) {
            self.observed_record = Some((spec.clone(), now));
        }
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let is_ours = holder == self.config.identity;
        if !is_ours && !holder.is_empty() && self.is_lease_valid(now) {
            return Ok(false);
        }
        lease.spec = Some(self.new_record(now, &spec, is_ours));
        match self.api.replace(&self.config.name, &PostParams::default(), &lease).await {
            Ok(lease) => {
                self.observed_record = lease.spec.map(|spec| (spec, now));
                Ok(true)
            }
            // Another candidate was faster: read the lease again.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                if is_ours {
                    Err(kube::Error::Api(status).into())
                } else {
                    Ok(false)
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn create_lease(&mut self) -> Result<bool, ReconcileError> {
        let now = self.clock.now();
        let record = self.new_record(now, &LeaseSpec::default(), false);
        let lease = Lease {
            metadata: ObjectMeta { name: Some(self.config.name.clone()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec { lease_transitions: Some(0), ..record }),
        };
        match self.api.create(&PostParams::default(), &lease).await {
            Ok(lease) => {
                self.observed_record = lease.spec.map(|spec| (spec, now));
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the last observed record is still valid.
    fn is_lease_valid(&self, now: Timestamp) -> bool {
        self.observed_record.as_ref().is_some_and(|(spec, since)| {
            let seconds = spec.lease_duration_seconds.unwrap_or_default();
            let duration = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            now < since.checked_add(duration).unwrap_or(Timestamp::MAX)
        })
    }

    fn new_record(&self, now: Timestamp, before: &LeaseSpec, is_ours: bool) -> LeaseSpec {
        let transitions = before.lease_transitions.unwrap_or_default();
        let acquired = before.acquire_time.clone().filter(|_| is_ours);
        LeaseSpec {
            holder_identity: Some(self.config.identity.clone()),
            lease_duration_seconds: Some(
                i32::try_from(self.config.lease_duration.as_secs()).unwrap_or(i32::MAX),
            ),
            acquire_time: Some(acquired.unwrap_or(MicroTime(now))),
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(if is_ours { transitions } else { transitions + 1 }),
            ..LeaseSpec::default()
        }
    }
}
