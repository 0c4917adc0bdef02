//! Tests of the injected API faults and of watches under them.

use std::collections::BTreeMap;
use std::future::Future;

use futures_util::StreamExt as _;
use futures_util::future::select;
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use karpenter_operator::clock::TokioClock;
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::client::Body;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tower::{Layer as _, ServiceExt as _};

use super::*;
use crate::world::World;
use karpenter_operator::watch::{Informer, Notifier};

fn world(seed: u64) -> World {
    let start = "2026-01-05T08:00:00Z".parse().unwrap();
    crate::kwok::world(Arc::new(TokioClock::starting_at(start)), seed)
}

fn maps(client: kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

async fn create(api: &Api<ConfigMap>, name: &str) -> Result<ConfigMap, kube::Error> {
    let object = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    api.create(&PostParams::default(), &object).await
}

async fn change(api: &Api<ConfigMap>, name: &str, to: u32) -> Result<ConfigMap, kube::Error> {
    let patch = json!({"data": {"n": to.to_string()}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
}

fn code(result: &Result<ConfigMap, kube::Error>) -> u16 {
    match result {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    }
}

/// What a call comes to, and how many seconds it takes.
async fn timed<T>(world: &World, call: impl Future<Output = T>) -> (T, i64) {
    let before = world.clock.now();
    let result = call.await;
    (result, world.clock.now().duration_since(before).as_secs())
}

/// The fault, its rates, the codes and seconds that may come of it, and whether the call happens.
type Row = (&'static str, ApiFaults, &'static [u16], &'static [i64], Option<bool>);

#[tokio::test(start_paused = true)]
async fn each_api_fault_has_its_status_code_delay_and_effect() {
    let late = RandomDelay { rate: 1.0, by: Duration::from_secs(2) };
    #[rustfmt::skip]
    let rows: [Row; 6] = [
        // fault        rates                                                     codes             seconds     is created
        ("none",        ApiFaults::default(),                                     &[200],           &[0],       Some(true)),
        ("errors",      ApiFaults { errors: 1.0, ..ApiFaults::default() },        &[429, 500, 503], &[0],       Some(false)),
        ("conflicts",   ApiFaults { conflicts: 1.0, ..ApiFaults::default() },     &[200],           &[0],       Some(true)),
        ("slow",        ApiFaults { slow: late, ..ApiFaults::default() },         &[200],           &[2],       Some(true)),
        ("lostAnswers", ApiFaults { lost_answers: 1.0, ..ApiFaults::default() },  &[0],             &[0],       Some(true)),
        ("timeouts",    ApiFaults { timeouts: 1.0, ..ApiFaults::default() },      &[0, 504],        &[60, 295], None),
    ];
    let world = world(1);
    let (faulty, clean) = (maps(world.product_client()), maps(world.client()));
    for (fault, faults, codes, seconds, is_created) in rows {
        world.faults.api.set(faults, None);
        let (mut seen, mut happened) = (BTreeMap::new(), 0);
        for number in 0..40 {
            let name = format!("{}-{number}", fault.to_lowercase());
            let (result, took) = timed(&world, create(&faulty, &name)).await;
            assert!(codes.contains(&code(&result)), "{fault}: {result:?}");
            assert!(seconds.contains(&took), "{fault}: took {took}s");
            *seen.entry(code(&result)).or_insert(0) += 1;
            let is_there = clean.get_opt(&name).await.unwrap().is_some();
            assert!(is_created.is_none_or(|expected| expected == is_there), "{fault}");
            happened += u32::from(is_there);
        }
        assert_eq!(seen.len(), codes.len(), "{fault}: each of {codes:?} happens");
        if is_created.is_none() {
            assert!((5..35).contains(&happened), "{fault}: about half of {happened} happen");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn conflict_faults_hit_only_updates_and_name_the_object() {
    let world = world(1);
    let api = maps(world.product_client());
    create(&api, "a").await.unwrap();
    world.faults.api.set(ApiFaults { conflicts: 1.0, ..ApiFaults::default() }, None);
    let error = change(&api, "a", 1).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    let expected = "Operation cannot be fulfilled on configmaps \"a\": the object has been";
    assert!(status.message.starts_with(expected), "{}", status.message);
    assert_eq!(api.get("a").await.unwrap().data, None);
}

#[tokio::test(start_paused = true)]
async fn a_429_response_has_a_retry_after_header() {
    let world = world(1);
    world.faults.api.set(ApiFaults { errors: 1.0, ..ApiFaults::default() }, None);
    let service = world.api_faults().layer(world.api.service());
    let mut retries = 0;
    for _ in 0..30 {
        let request = Request::get("/api/v1/nodes").body(Body::empty()).unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        let retry = response.headers().get("retry-after").map(|value| value.to_str().unwrap());
        let expected = (response.status() == 429).then_some("1");
        assert_eq!(retry, expected);
        retries += u32::from(retry.is_some());
    }
    assert!(retries > 0);
}

#[tokio::test(start_paused = true)]
async fn faults_end_after_their_duration() {
    let world = world(1);
    let api = maps(world.product_client());
    let spec = FaultSpec {
        api: ApiFaults { errors: 1.0, ..ApiFaults::default() },
        length: Some(Duration::from_mins(10)),
        ..FaultSpec::default()
    };
    world.faults.set(&spec);
    world.clock.sleep(Duration::from_secs(599)).await;
    assert!(create(&api, "a").await.is_err());
    world.clock.sleep(Duration::from_secs(1)).await;
    assert!(create(&api, "a").await.is_ok());
    world.faults.set(&spec);
    assert!(create(&api, "b").await.is_err());
    world.faults.set(&FaultSpec::default());
    assert!(create(&api, "b").await.is_ok());
}

/// Returns the events of a watch until its end or a silent minute.
async fn watch_events(world: &World, version: &str) -> Vec<Result<String, String>> {
    let params = WatchParams::default().disable_bookmarks();
    let stream = match maps(world.product_client()).watch(&params, version).await {
        Ok(stream) => stream,
        Err(error) => return vec![Err(error.to_string())],
    };
    let mut stream = Box::pin(stream);
    let mut seen = Vec::new();
    loop {
        let quiet = world.clock.sleep(Duration::from_mins(1));
        let futures_util::future::Either::Left((next, _)) = select(stream.next(), quiet).await
        else {
            return seen;
        };
        let text = |map: ConfigMap| {
            let data = map.data.clone().unwrap_or_default();
            format!("{}{}", map.name_any(), data.get("n").cloned().unwrap_or_default())
        };
        match next {
            None => return seen,
            Some(Ok(WatchEvent::Added(map) | WatchEvent::Modified(map))) => {
                seen.push(Ok(text(map)));
            }
            Some(Ok(other)) => panic!("{other:?}"),
            Some(Err(error)) => seen.push(Err(error.to_string())),
        }
    }
}

/// Returns a world that has changed `a` and `b` alternately since the resource version.
async fn world_with_changes(seed: u64, faults: ApiFaults) -> (World, String) {
    let world = world(seed);
    let clean = maps(world.client());
    create(&clean, "a").await.unwrap();
    let version = create(&clean, "b").await.unwrap().resource_version().unwrap();
    for n in 1..=3 {
        for name in ["a", "b"] {
            change(&clean, name, n).await.unwrap();
        }
    }
    world.faults.api.set(faults, None);
    (world, version)
}

fn texts(seen: Vec<Result<String, String>>) -> Vec<String> {
    seen.into_iter().map(Result::unwrap).collect()
}

#[tokio::test(start_paused = true)]
async fn watch_events_are_duplicated_or_reordered_across_objects() {
    let (world, version) =
        world_with_changes(1, ApiFaults { duplicates: 1.0, ..ApiFaults::default() }).await;
    let seen = texts(watch_events(&world, &version).await);
    assert_eq!(seen, ["a1", "a1", "b1", "b1", "a2", "a2", "b2", "b2", "a3", "a3", "b3", "b3"]);

    let (world, version) =
        world_with_changes(1, ApiFaults { reorders: 1.0, ..ApiFaults::default() }).await;
    let seen = texts(watch_events(&world, &version).await);
    assert_eq!(seen, ["b1", "a1", "b2", "a2", "b3", "a3"]);
}

#[tokio::test(start_paused = true)]
async fn a_held_back_watch_event_is_delivered_without_a_successor() {
    let world = world(1);
    let clean = maps(world.client());
    let version = create(&clean, "a").await.unwrap().resource_version().unwrap();
    change(&clean, "a", 1).await.unwrap();
    change(&clean, "a", 2).await.unwrap();
    world.faults.api.set(ApiFaults { reorders: 1.0, ..ApiFaults::default() }, None);
    assert_eq!(texts(watch_events(&world, &version).await), ["a1", "a2"]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_watch_event_delays_all_later_events() {
    let late = RandomDelay { rate: 1.0, by: Duration::from_secs(20) };
    let faults = ApiFaults { watch_delays: late, ..ApiFaults::default() };
    let (world, version) = world_with_changes(1, faults).await;
    let (seen, took) = timed(&world, watch_events(&world, &version)).await;
    assert_eq!(texts(seen), ["a1", "b1", "a2", "b2", "a3", "b3"]);
    assert_eq!(took, 6 * 20 + 60);
}

#[tokio::test(start_paused = true)]
async fn watch_cuts_end_the_stream_in_three_ways() {
    let mut ways = BTreeMap::new();
    for seed in 0..30 {
        let faults = ApiFaults { watch_cuts: 0.4, ..ApiFaults::default() };
        let (world, version) = world_with_changes(seed, faults).await;
        let seen = watch_events(&world, &version).await;
        let error = seen.last().and_then(|last| last.clone().err());
        let good: Vec<_> = seen.into_iter().filter_map(Result::ok).collect();
        assert!(
            ["a1", "b1", "a2", "b2", "a3", "b3"]
                .starts_with(&good.iter().map(String::as_str).collect::<Vec<_>>())
        );
        let cuts = world.faults.journal.since(0);
        for cut in cuts {
            assert_eq!(error.is_some(), cut.fault == "watch breaks", "{cut}: {error:?}");
            *ways.entry(cut.fault).or_insert(0) += 1;
        }
    }
    let ways: Vec<_> = ways.into_keys().collect();
    assert_eq!(ways, ["watch breaks", "watch ends", "watch ends in a line"]);
}

#[tokio::test(start_paused = true)]
async fn expired_faults_spare_watches_from_resource_version_zero() {
    let (world, version) =
        world_with_changes(1, ApiFaults { expired: 1.0, ..ApiFaults::default() }).await;
    let seen = watch_events(&world, &version).await;
    let error = seen[0].as_ref().unwrap_err();
    assert!(error.contains("too old"), "{error}");
    let from_now = texts(watch_events(&world, "0").await);
    assert_eq!(from_now[..2], ["a3", "b3"]);
}

/// Returns API faults in which every kind has about this rate.
fn all_api_faults(rate: f64) -> ApiFaults {
    let late = RandomDelay { rate, by: Duration::from_secs(3) };
    ApiFaults {
        errors: rate,
        conflicts: rate,
        slow: late,
        lost_answers: rate,
        timeouts: rate / 5.0,
        expired: rate,
        watch_cuts: rate,
        watch_delays: late,
        duplicates: rate,
        reorders: rate,
    }
}

/// Runs an informer and a writer for half an hour of faults and an hour without.
/// Returns the objects of the informer, those of the API, and the injected faults.
async fn run_informer_under_faults(seed: u64) -> (Vec<String>, Vec<String>, Vec<InjectedFault>) {
    let world = world(seed);
    let wake = Notifier::default();
    let spec = FaultSpec {
        api: all_api_faults(0.2),
        length: Some(Duration::from_mins(30)),
        ..FaultSpec::default()
    };
    world.faults.set(&spec);
    let informer: Informer<ConfigMap> =
        Informer::new(maps(world.product_client()), &world.clock, &wake);
    let write = async {
        let (api, mut rng) = (maps(world.product_client()), world.rng.fork("writer"));
        for n in 0..300 {
            let name = format!("m{}", rng.range(0..8));
            // What fails is what this is about.
            let _ = match rng.range(0..4) {
                0 => api.delete(&name, &kube::api::DeleteParams::default()).await.map(drop),
                1 => create(&api, &name).await.map(drop),
                _ => change(&api, &name, n).await.map(drop),
            };
            world.clock.sleep(Duration::from_secs(4)).await;
        }
        world.clock.sleep(Duration::from_hours(1)).await;
    };
    select(Box::pin(informer.run()), Box::pin(write)).await;
    let row = |map: &ConfigMap| format!("{}@{}", map.name_any(), map.resource_version().unwrap());
    let known = informer.all().iter().map(|map| row(map)).collect();
    let listed = maps(world.client()).list(&kube::api::ListParams::default()).await.unwrap();
    let there = listed.items.iter().map(row).collect();
    (known, there, world.faults.journal.since(0))
}

#[tokio::test(start_paused = true)]
async fn an_informer_matches_the_api_after_the_faults_end() {
    let mut kinds = BTreeMap::new();
    for seed in 0..12 {
        let (known, there, faults) = run_informer_under_faults(seed).await;
        assert_eq!(known, there, "seed {seed}");
        for fault in faults {
            *kinds.entry(fault.fault).or_insert(0) += 1;
        }
    }
    assert_eq!(kinds.len(), 15, "every kind happened: {kinds:?}");
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_injects_the_same_api_faults() {
    let (first, second, other) = (
        run_informer_under_faults(7).await,
        run_informer_under_faults(7).await,
        run_informer_under_faults(8).await,
    );
    assert!(first.2.len() > 100, "{}", first.2.len());
    assert_eq!(first, second);
    assert_ne!(first.2, other.2);
}

#[tokio::test(start_paused = true)]
async fn one_fault_rate_does_not_change_the_other_faults() {
    let mut errors = Vec::new();
    for slow in [0.0, 0.5] {
        let world = world(3);
        let slow = RandomDelay { rate: slow, by: Duration::from_secs(1) };
        world.faults.api.set(ApiFaults { errors: 0.2, slow, ..ApiFaults::default() }, None);
        let api = maps(world.product_client());
        let mut codes = Vec::new();
        for n in 0..100 {
            codes.push(code(&create(&api, &format!("m{n}")).await));
        }
        errors.push(codes);
    }
    assert!(errors[0].iter().any(|code| *code != 200));
    assert_eq!(errors[0], errors[1]);
}
