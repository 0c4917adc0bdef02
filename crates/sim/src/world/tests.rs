//! Tests of product restarts and of the product's faulty API client.

use std::sync::Mutex;

use karpenter_operator::clock::TokioClock;

use super::*;

fn clock() -> Arc<dyn Clock> {
    Arc::new(TokioClock::starting_at("2026-01-05T08:00:00Z".parse().unwrap()))
}

/// Says when it ends.
struct Process(Arc<Mutex<Vec<String>>>, usize);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(format!("{} ends", self.1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_starts_a_new_process_with_empty_memory() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (log, starts) = (seen.clone(), Arc::new(Mutex::new(0)));
    let start: ProductStarter = Arc::new(move |world, tasks| {
        *starts.lock().unwrap() += 1;
        let process = Process(log.clone(), *starts.lock().unwrap());
        let (log, clock, start) = (log.clone(), world.clock.clone(), world.start);
        tasks.spawn("process", async move {
            // As a whole, and not its number alone.
            let process = process;
            let mut memory = 0;
            loop {
                memory += 1;
                let seconds = clock.now().duration_since(start).as_secs();
                log.lock().unwrap().push(format!("{} counts {memory} at {seconds}s", process.1));
                clock.sleep(Duration::from_secs(10)).await;
            }
        });
    });
    let world = crate::kwok::world(clock(), 1).with_product(start);
    world.begin().await.unwrap();
    world.clock.sleep(Duration::from_secs(15)).await;
    world.restart_product(Duration::from_secs(30)).await;
    world.clock.sleep(Duration::from_secs(5)).await;
    world.end().await;
    let expected =
        ["1 counts 1 at 0s", "1 counts 2 at 10s", "1 ends", "2 counts 1 at 45s", "2 ends"];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn api_faults_hit_only_the_product_client() {
    let world = crate::kwok::world(clock(), 1);
    let faults = crate::faults::ApiFaults { errors: 1.0, ..Default::default() };
    world.faults.api.set(faults, None);
    assert!(world.product_client().apiserver_version().await.is_err());
    assert!(world.client().apiserver_version().await.is_ok());
}
