//! Results of runs with many events.

use super::support::{TestRun, TestRuns};
use serde_json::json;

/// Adds 600 outputs of 200 bytes to `run_1`.
const MANY: &str = r#"INSERT INTO run_event (run_id, seq, kind, payload, created_at)
    WITH RECURSIVE number(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM number WHERE seq < 600)
    SELECT 'run_1', seq, 'command_output', '{"stream":"stdout","text":"x","outputBytes":200,"outputTruncated":false}', 1
    FROM number"#;

#[tokio::test]
async fn a_result_that_is_asked_for_again_goes_on_where_it_was() {
    let runs = TestRuns::open().await;
    runs.insert_run(&TestRun { session: Some(&runs.session().await), ..TestRun::NEW }).await;
    runs.sql(MANY).await;
    runs.sql("UPDATE run SET last_seq = 600").await;
    let first = runs.ok("run.result", json!({ "runId": "run_1" })).await;
    assert_eq!(
        (&first["eventCount"], &first["lastSeq"], &first["reply"]),
        (&json!(600), &json!(600), &json!(null))
    );
    assert_eq!(first["artifactSummary"]["outputBytes"], 120_000);

    // What was read before is not read again.
    runs.sql("DELETE FROM run_event WHERE seq <= 600").await;
    runs.append(601, "assistant_message", 20).await;
    let second = runs.ok("run.result", json!({ "runId": "run_1" })).await;
    assert_eq!((&second["eventCount"], &second["lastSeq"]), (&json!(601), &json!(601)));
    assert_eq!(second["reply"], "xxxxxxxxx");
    assert_eq!(second["artifactSummary"]["outputBytes"], 120_000);
    let again = runs.ok("run.result", json!({ "runId": "run_1" })).await;
    assert_eq!(again["eventCount"], 601);
}

#[tokio::test]
async fn a_result_of_large_events_is_whole() {
    let runs = TestRuns::open().await;
    runs.insert_run(&TestRun { session: Some(&runs.session().await), ..TestRun::NEW }).await;
    for seq in 1..=9 {
        runs.append(seq, "assistant_message", 256 << 10).await;
    }
    let result = runs.ok("run.result", json!({ "runId": "run_1" })).await;
    assert_eq!((&result["eventCount"], &result["finalAssistantSeq"]), (&json!(9), &json!(9)));
    assert_eq!(
        (&result["finalAssistantTextTruncated"], &result["eventsCapped"]),
        (&json!(true), &json!(false))
    );
}
