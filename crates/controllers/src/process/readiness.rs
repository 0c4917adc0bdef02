//! The checks behind `/readyz`.

use karpenter_operator::health::HealthChecks;

use crate::{Cache, Context, state};

/// Returns the readiness checks of a process.
///
/// A process is ready when its cache has synced, no kind is stale, and the mirror has every
/// NodeClaim and Node.
pub fn readiness_checks(context: &Context) -> HealthChecks {
    let readyz = HealthChecks::new("readyz", &context.clock);
    let cache = context.cache.clone();
    let clock = context.clock.clone();
    readyz.add("manager", move || {
        check_listed(&cache, |_| true)?;
        let stale = cache.stale_kinds(clock.now());
        let messages = stale.iter().map(|(kind, error)| {
            format!("{kind}: {}", error.as_deref().unwrap_or("cannot be listed"))
        });
        let messages: Vec<_> = messages.collect();
        if messages.is_empty() { Ok(()) } else { Err(messages.join(", ")) }
    });
    let cache = context.cache.clone();
    readyz.add("crd", move || {
        check_listed(&cache, |kind| ["nodepools", "nodeclaims"].contains(&kind))
    });
    let context = context.clone();
    readyz.add("state", move || state::ready(&context));
    readyz
}

/// Returns an error about the first of these kinds that has not been listed.
fn check_listed(cache: &Cache, kinds: impl Fn(&str) -> bool) -> Result<(), String> {
    match cache.unsynced_kinds().into_iter().find(|(kind, _)| kinds(kind)) {
        None => Ok(()),
        Some((kind, error)) => {
            Err(format!("{kind}: {}", error.as_deref().unwrap_or("not listed yet")))
        }
    }
}
