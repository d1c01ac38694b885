//! What is removed with an agent, after the retention, and because nobody used it.

use super::support::{FrontEnd, THREAD, input, task};
use axum::http::Request;
use kernel::{Aid, RemoveAgent as _};
use serde_json::json;
use testing::DAY_MS;

async fn rows(front: &FrontEnd, table: &str) -> i64 {
    let text = sqlx::AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
    sqlx::query_scalar(text).fetch_one(front.runs.run.store.db().read()).await.unwrap()
}

async fn upload(front: &FrontEnd) {
    let body = "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nGIF89a\r\n--b--\r\n";
    let request = Request::builder()
        .method("POST")
        .uri("/api/v1/agent/attachments")
        .header("content-type", "multipart/form-data; boundary=b");
    assert_eq!(front.http(request, body).await.status, 200);
}

#[tokio::test]
async fn an_agent_that_ends_leaves_nothing_of_its_conversations() {
    let front = FrontEnd::open().await;
    let accepted = front.run(input("run-1", "hello")).await;
    let runner = front.runner().await;
    front.answer(&runner, &task(&accepted), "hi").await;
    front.ok("agui.set_profile", json!({ "timezone": "Asia/Tokyo" })).await;
    upload(&front).await;
    let alice = Aid::parse("alice.aid.pub").unwrap();
    front.runs.run.remove_agent(&alice, 0).await.unwrap();
    for table in ["agui_thread", "agui_run", "agui_message", "agui_profile", "agui_attachment"] {
        assert_eq!(rows(&front, table).await, 0, "{table}");
    }
    let kept: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM account WHERE payer = 'alice.aid.pub' AND kept_rows > 0")
            .fetch_one(front.runs.run.store.db().read())
            .await
            .unwrap();
    assert_eq!(kept, 0, "nothing counts for it any more");
}

#[tokio::test]
async fn what_nobody_has_touched_for_a_year_is_removed_and_unused_pictures_after_a_day() {
    let front = FrontEnd::open().await;
    front.run(input("run-1", "hello")).await;
    upload(&front).await;
    let sweep = async |days: i64| {
        front.runs.test.world.clock.advance_ms(days * DAY_MS);
        front.runs.run.remove_old_conversations(front.runs.now()).await.unwrap();
    };
    sweep(0).await;
    assert_eq!((rows(&front, "agui_attachment").await, rows(&front, "agui_thread").await), (1, 1));
    sweep(2).await;
    assert_eq!((rows(&front, "agui_attachment").await, rows(&front, "agui_thread").await), (0, 1));
    sweep(364).await;
    assert_eq!((rows(&front, "agui_thread").await, rows(&front, "agui_message").await), (0, 0));
    let again = front.run(input("run-1", "hello again")).await;
    assert_eq!((&again["created"], &again["threadId"]), (&json!(true), &json!(THREAD)));
}
