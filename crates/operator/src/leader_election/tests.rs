//! Tests of leader election: acquire, renew, expire and release.

use karpenter_apiserver::testing::environment::TestEnvironment;

use super::*;
use crate::clock::TokioClock;
use crate::harness::tasks::Tasks;

fn seconds(clock: &Arc<dyn Clock>) -> i64 {
    clock.now().as_second()
}

fn client_and_clock() -> (Client, Arc<dyn Clock>) {
    let api = karpenter_apiserver::Api::new(Arc::new(TestEnvironment::new()));
    let clock = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
    (Client::new(api.service(), "default"), clock)
}

fn candidate(client: &Client, clock: &Arc<dyn Clock>, identity: &str) -> LeaderElector {
    let config =
        LeaderElectionConfig::new("kube-system", "karpenter-leader-election", identity.to_owned());
    LeaderElector::new(config, client.clone(), clock.clone(), SeededRng::new(1))
}

async fn lease(client: &Client) -> LeaseSpec {
    let api: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    api.get("karpenter-leader-election").await.unwrap().spec.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_acquires_and_keeps_the_lease() {
    let (client, clock) = client_and_clock();
    let mut leader = candidate(&client, &clock, "a");
    leader.acquire().await;
    let tasks = Tasks::new();
    tasks.spawn("leader", async move { leader.renew_until_lost().await });
    clock.sleep(Duration::from_mins(1)).await;
    let mut other = candidate(&client, &clock, "b");
    assert!(!other.try_acquire_or_renew().await.unwrap());
    let spec = lease(&client).await;
    assert_eq!(spec.holder_identity.as_deref(), Some("a"));
    assert_eq!(spec.lease_transitions, Some(0));
    assert_eq!(spec.acquire_time.unwrap().0.as_second(), 0);
    assert_eq!(spec.renew_time.unwrap().0.as_second(), 60);
    tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_is_acquired_by_another_candidate() {
    let (client, clock) = client_and_clock();
    candidate(&client, &clock, "a").acquire().await;
    let mut other = candidate(&client, &clock, "b");
    other.acquire().await;
    let waited = seconds(&clock);
    assert!((15..=20).contains(&waited), "{waited}");
    assert_eq!(lease(&client).await.lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_acquired_at_the_next_attempt() {
    let (client, clock) = client_and_clock();
    let mut leader = candidate(&client, &clock, "a");
    leader.acquire().await;
    let mut other = candidate(&client, &clock, "b");
    assert!(!other.try_acquire_or_renew().await.unwrap());
    leader.release().await.unwrap();
    other.acquire().await;
    assert_eq!(seconds(&clock), 0);
    leader.release().await.unwrap();
    let holder = lease(&client).await.holder_identity;
    assert_eq!(holder.as_deref(), Some("b"), "only its own lease is released");
}

#[tokio::test(start_paused = true)]
async fn a_leader_stops_when_another_process_holds_its_lease() {
    let (client, clock) = client_and_clock();
    let mut leader = candidate(&client, &clock, "a");
    leader.acquire().await;
    let api: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let mut taken = api.get("karpenter-leader-election").await.unwrap();
    taken.spec.as_mut().unwrap().holder_identity = Some("b".to_owned());
    api.replace("karpenter-leader-election", &PostParams::default(), &taken).await.unwrap();
    leader.renew_until_lost().await;
    assert_eq!(seconds(&clock), 2);
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_api_server_stops_before_its_lease_expires() {
    let (client, clock) = client_and_clock();
    let mut leader = candidate(&client, &clock, "a");
    leader.acquire().await;
    let broken = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("no route"))
    });
    leader.api = Api::namespaced(Client::new(broken, "default"), "kube-system");
    leader.renew_until_lost().await;
    assert_eq!(seconds(&clock), 12, "a try after 2 s, and 10 s of retries");
}
