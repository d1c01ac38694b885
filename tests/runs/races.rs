//! Runners that want the same run, and runners that come back when somebody else has it.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::client::{TestBackEnd, TestManager, TestRunner, assert_contiguous, number, said};
use crate::support::{as_often, setting, until};

/// Two runners claim a run that nobody has, so many times: exactly one gets it, and the other one is told who.
async fn claimed_by_one_of_two(times: usize) {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let run = back_end.run().await;
    let command = back_end.turn(&run, "x").await;
    let one = back_end.runner(&run, &command).await;
    let other = one.beside().await;
    // Without a command that waits, the lease can be given back.
    back_end.api.ok("POST", &format!("/commands/{command}/cancel"), &json!({}), 200).await;
    let mut runners = [one, other];
    let (mut epoch, mut won_by) = (0, [0, 0]);
    for round in 0..times {
        // Each of them is the first to ask every other time.
        let [one, other] = [&runners[round % 2], &runners[1 - round % 2]];
        let (first, second) = tokio::join!(one.try_claim(600_000), other.try_claim(600_000));
        let (won, lost) = if second.status == 200 { (second, first) } else { (first, second) };
        assert_eq!((won.status, lost.status), (200, 409), "round {round}: {} {}", won.body, lost.body);
        epoch += 1;
        let lease = &won.body["data"]["lease"];
        assert_eq!(number(&lease["epoch"]), epoch);
        let winner = usize::from(lease["runnerId"] == json!(runners[1].id));
        assert_eq!(lease["runnerId"], json!(runners[winner].id));
        assert_eq!(won.body["data"]["recovered"], false, "it was given back");
        assert_eq!(lost.failure_kind(), "runner-lease-conflict");
        let details = &lost.body["details"];
        assert_eq!(
            (&details["ownerRunnerId"], &details["leaseExpiresAt"]),
            (&json!(runners[winner].id), &lease["expiresAt"])
        );
        won_by[winner] += 1;
        runners[winner].epoch = epoch;
        assert_eq!(runners[winner].release().await["released"], true, "round {round}");
    }
    assert!(won_by.iter().all(|won| *won > 0), "both ask at once, so each gets it now and then: {won_by:?}");
    assert!(back_end.read(&run).await["lease"].is_null());
    let events = back_end.api.events(&run).await;
    assert_contiguous(&events);
    let waiting = events.iter().filter(|event| event["payload"]["phase"] == "claim-waiting").count();
    assert_eq!((waiting, events.len()), (2, 3), "the first refusal of each, and the cancel");
}

#[tokio::test]
async fn of_two_that_claim_at_once_one_gets_it() {
    claimed_by_one_of_two(as_often(500, 150)).await;
}

#[tokio::test]
#[ignore = "ten thousand times"]
async fn of_two_that_claim_at_once_one_gets_it_ten_thousand_times() {
    let times = setting("AUND_TEST_CLAIMS").and_then(|times| times.parse().ok()).unwrap_or(10_000);
    claimed_by_one_of_two(times).await;
}

/// Fifteen ask while the owner gives it back: whether one of them comes after that is chance, and two never do.
#[tokio::test]
async fn a_lease_that_is_given_back_goes_to_one_of_those_who_ask() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let run = back_end.run().await;
    let command = back_end.turn(&run, "x").await;
    let mut owner = back_end.runner(&run, &command).await;
    back_end.api.ok("POST", &format!("/commands/{command}/cancel"), &json!({}), 200).await;
    let mut others = Vec::new();
    for _ in 0..15 {
        others.push(owner.beside().await);
    }
    owner.claim().await;
    for round in 0..30 {
        let asking = join_all(others.iter().map(|other| other.try_claim(600_000)));
        let (asked, released) = tokio::join!(asking, owner.release());
        assert_eq!(released["released"], true);
        assert!(
            asked
                .iter()
                .all(|answer| answer.status == 200 || answer.failure_kind() == "runner-lease-conflict")
        );
        let mut winners: Vec<usize> = (0..asked.len()).filter(|at| asked[*at].status == 200).collect();
        assert!(winners.len() <= 1, "round {round}: {winners:?}");
        if winners.is_empty() {
            assert_eq!(others[round % 15].try_claim(600_000).await.status, 200, "nobody has it");
            winners.push(round % 15);
        }
        let lease = back_end.read(&run).await["lease"].clone();
        let winner = &mut others[winners[0]];
        assert_eq!((&lease["runnerId"], number(&lease["epoch"])), (&json!(winner.id), owner.epoch + 1));
        winner.epoch = owner.epoch + 1;
        std::mem::swap(&mut owner, winner);
    }
    assert_contiguous(&back_end.api.events(&run).await);
}

/// The runner that held the run, and the one that took it after the lease had expired.
async fn replaced(back_end: &TestBackEnd) -> (String, String, TestRunner, TestRunner) {
    let run = back_end.run().await;
    let command = back_end.turn(&run, "hello").await;
    let mut old = back_end.runner(&run, &command).await;
    old.claim_for(5000).await;
    old.acknowledge(&command).await;
    old.say(&command, "e-1", "begun").await;
    let replacement = until("a replacement can be started", || async {
        let body = json!({ "commandId": command, "launcher": "external" });
        let answer = back_end.api.call("POST", &format!("/runs/{run}/runner-jobs"), &body).await;
        if answer.status == 201 {
            return Some(answer.body["data"].clone());
        }
        assert_eq!((answer.status, answer.failure_kind()), (409, "runner-lease-conflict"), "{}", answer.body);
        let details = &answer.body["details"];
        assert_eq!(details["ownerRunnerId"], json!(old.id), "{details}");
        assert!(details["leaseExpiresAt"].is_string(), "{details}");
        None
    })
    .await;
    let mut new = TestRunner::register(&back_end.api, &replacement).await;
    let claimed = new.claim().await;
    assert_eq!((&claimed["recovered"], new.epoch), (&json!(true), old.epoch + 1));
    (run, command, old, new)
}

#[tokio::test]
async fn a_runner_that_wakes_up_after_its_replacement_changes_nothing() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let (run, command, old, new) = replaced(&back_end).await;
    let waiting = back_end.turn(&run, "waits").await;
    let state = async || {
        (
            back_end.read(&run).await,
            back_end.read_command(&run, &command).await,
            back_end.api.events(&run).await,
        )
    };
    let before = state().await;
    let poll = old.api.call("GET", &old.poll_path(0, 0), &Value::Null).await;
    for refused in [
        old.try_append(json!([said(&command, "late", "late")])).await,
        old.try_append(json!([said(&command, "e-1", "begun")])).await,
        old.try_acknowledge(&waiting).await,
        old.try_acknowledge(&command).await,
        old.try_report(&command, "running").await,
        old.try_report(&command, "completed").await,
        old.try_report_run(json!({ "status": "failed", "failureKind": "infra-failed" })).await,
        old.try_lease(json!({})).await,
        old.try_lease(json!({ "release": true })).await,
        old.try_claim(600_000).await,
        poll,
    ] {
        assert_eq!(
            (refused.status, refused.failure_kind()),
            (409, "runner-lease-conflict"),
            "{}",
            refused.body
        );
        assert_eq!(refused.body["details"]["ownerRunnerId"], json!(new.id));
    }
    let mut after = state().await;
    // That the old one asks for the lease again is seen once.
    let noted = after.2.pop().expect("an event");
    assert_eq!(
        (&noted["payload"]["phase"], &noted["payload"]["runnerId"]),
        (&json!("claim-waiting"), &json!(old.id))
    );
    for member in ["lastSeq", "updatedAt"] {
        after.0[member] = before.0[member].clone();
    }
    assert_eq!(after, before);

    // Its replacement goes on as if nothing had been, and nothing is run twice.
    let polled = new.poll().await;
    assert_eq!(polled["commands"][0]["acknowledgedEpoch"], json!(old.epoch));
    assert_eq!(new.acknowledge(&command).await["acknowledgedEpoch"], json!(new.epoch));
    assert_eq!(new.append(json!([said(&command, "e-1", "begun")])).await["appended"][0]["seq"], 1);
    new.report(&command, "completed").await;
    assert_eq!(old.try_report(&command, "failed").await.status, 409);
    assert_eq!(back_end.read_command(&run, &command).await["state"], "completed");
    assert_contiguous(&back_end.api.events(&run).await);
}

#[tokio::test]
async fn a_lease_that_expired_and_that_nobody_took_is_renewed() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let run = back_end.run().await;
    let command = back_end.turn(&run, "hello").await;
    let mut runner = back_end.runner(&run, &command).await;
    runner.claim_for(5000).await;
    until("the lease expires", || async {
        let result = back_end.api.get(&format!("/runs/{run}/result")).await;
        (result["liveness"]["lease"]["expired"] == true).then_some(())
    })
    .await;
    runner.acknowledge(&command).await;
    runner.say(&command, "e-1", "still here").await;
    let renewed = runner.heartbeat().await;
    assert_eq!(renewed["lease"]["epoch"], json!(runner.epoch));
    let result = back_end.result(&run, &command).await;
    assert_eq!(result["liveness"]["lease"]["expired"], false);
    assert_eq!(back_end.api.events(&run).await.len(), 1, "nobody has recovered anything");
}

#[tokio::test]
async fn storage_that_is_evicted_under_a_lease_is_there_until_the_lease_ends() {
    let manager = TestManager::shared().await;
    let back_end = manager.back_end().await;
    let session = back_end.session().await;
    let run = back_end.run_of(&session).await;
    let command = back_end.turn(&run, "x").await;
    let mut runner = back_end.runner(&run, &command).await;
    runner.claim().await;
    runner.acknowledge(&command).await;
    let folder =
        manager.server.data_of("run").join("sessions").join(format!("agentrun-v01-session-{session}"));
    let is_there = || std::fs::exists(&folder).expect("it can be looked at");
    assert!(is_there(), "{folder:?}");
    let storage = format!("/sessions/{session}/storage");
    let evicted = back_end.api.ok("DELETE", &storage, &Value::Null, 200).await;
    assert_eq!(evicted["storageKind"], "evicted", "it is marked at once");
    let admin = manager.admin().await;
    admin.ok("POST", "/sessions/storage/gc", &json!({}), 200).await;
    assert!(is_there(), "its runner still works in it");
    runner.say(&command, "e-1", "still here").await;
    runner.report(&command, "completed").await;
    assert_eq!(runner.release().await["released"], true);
    admin.ok("POST", "/sessions/storage/gc", &json!({}), 200).await;
    until("it is removed", || async { (!is_there()).then_some(()) }).await;
    let next = back_end.turn(&run, "y").await;
    let body = json!({ "commandId": next, "launcher": "external" });
    let jobs = format!("/runs/{run}/runner-jobs");
    back_end.api.refused("POST", &jobs, &body, (409, "session-store-evicted")).await;
}
