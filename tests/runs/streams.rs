//! More open streams than one HTTP/2 connection between the gateway and the service has: everybody else is answered meanwhile.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::split;

use super::client::{TestApi, TestBackEnd, TestManager, assert_contiguous, said};

const STREAMS: usize = 600;
const TENANTS: usize = 10;
/// Of one caller, as the limit says.
const MOST_OF_ONE: usize = 64;

#[tokio::test]
async fn with_six_hundred_open_streams_everybody_else_is_answered() {
    let manager = TestManager::shared().await;
    let mut runs = Vec::new();
    for _ in 0..TENANTS {
        let back_end = manager.back_end().await;
        let working = back_end.working().await;
        runs.push((back_end, working));
    }
    let each = STREAMS / TENANTS;
    let opened = runs.iter().map(|(back_end, (run, _, _))| async move {
        let path = format!("/runs/{run}/events");
        join_all((0..each).map(|_| back_end.api.watch(&path, &[]))).await
    });
    let mut streams = join_all(opened).await;
    assert!(streams.iter().flatten().all(|stream| stream.status == 200));

    // Requests of every other kind, by those who have streams and by somebody who has none.
    let other = manager.back_end().await;
    let (run, command, runner) = other.working().await;
    for round in 0..20 {
        let asked = join_all(runs.iter().map(|(back_end, (run, _, _))| back_end.read(run)));
        let id = format!("e-{round}");
        let (seen, _) = tokio::join!(asked, runner.say(&command, &id, "x"));
        assert_eq!(seen.len(), TENANTS);
    }
    assert_contiguous(&other.api.events(&run).await);
    assert_eq!(manager.server.get("/api/v1/health").await.status, 200);

    let writing = runs.iter().map(|(_, (run, command, runner))| async move {
        runner.append(json!([said(command, "e", run)])).await;
    });
    join_all(writing).await;
    for ((_, (run, _, _)), streams) in runs.iter().zip(&mut streams) {
        let heard: BTreeSet<String> = join_all(streams.iter_mut().map(|stream| stream.next()))
            .await
            .into_iter()
            .map(heard_in)
            .collect();
        assert_eq!(heard, BTreeSet::from([run.clone()]), "each hears what was said in its run");
    }

    // One caller has so many at a gateway and no more, and has the rest of them when it has closed one.
    let (back_end, (run, _, _)) = &runs[0];
    let path = format!("/runs/{run}/events");
    let gateways = if split() { 2 } else { 1 };
    let mut more = Vec::new();
    loop {
        let stream = back_end.api.watch(&path, &[]).await;
        if stream.status != 200 {
            assert_eq!(stream.status, 429);
            break;
        }
        more.push(stream);
        assert!(each + more.len() <= MOST_OF_ONE * gateways, "{} more", more.len());
    }
    assert!(each + more.len() >= MOST_OF_ONE, "only {} more", more.len());
    assert_eq!(asks(&back_end.api, &path).await, 200, "pages are no streams");
    assert_another_after_one_is_closed(back_end, &path, more).await;

    // They end with their runs.
    let ending = runs.iter().map(|(back_end, (run, _, _))| async move {
        back_end.api.ok("POST", &format!("/runs/{run}/cancel"), &json!({}), 200).await;
    });
    join_all(ending).await;
    let reporting = runs.iter().map(|(_, (_, command, runner))| runner.report(command, "cancelled"));
    join_all(reporting).await;
    for stream in streams.iter_mut().flatten() {
        assert_eq!(stream.rest().await.len(), 2, "of the command and of the run");
    }
}

fn heard_in(event: Option<super::client::StreamedEvent>) -> String {
    let event = event.expect("a stream goes on");
    event.data["payload"]["text"].as_str().expect("a text").to_owned()
}

async fn asks(api: &TestApi, path: &str) -> u16 {
    api.call("GET", path, &Value::Null).await.status
}

async fn assert_another_after_one_is_closed<T>(back_end: &TestBackEnd, path: &str, mut open: Vec<T>) {
    drop(open.pop());
    crate::support::until("another may be opened", || async {
        (back_end.api.watch(path, &[]).await.status == 200).then_some(())
    })
    .await;
}
