//! Pictures: uploaded, shown by signed URLs, and used by messages.

use super::support::{FrontEnd, THREAD, agent, input, task};
use axum::http::Request;
use serde_json::{Value, json};

const GIF: &str = "GIF89a\u{1}\u{0}\u{1}\u{0}";

async fn upload(front: &FrontEnd, kind: &str, bytes: &str) -> (u16, Value) {
    let body = format!(
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x\"\r\nContent-Type: {kind}\r\n\r\n{bytes}\r\n--b--\r\n"
    );
    let request = Request::builder()
        .method("POST")
        .uri("/api/v1/agent/attachments")
        .header("content-type", "multipart/form-data; boundary=b");
    let answer = front.http(request, &body).await;
    (answer.status, answer.json())
}

fn path_of(url: &str) -> String {
    url[url.find("/api/").unwrap()..].to_owned()
}

fn with_picture(run: &str, url: &str) -> Value {
    let mut input = input(run, "");
    input["messages"][0]["content"] = json!([
        { "type": "text", "text": "what is this?" }, { "type": "binary", "mimeType": "image/gif", "url": url },
    ]);
    input
}

#[tokio::test]
async fn a_picture_is_uploaded_shown_used_and_found_again() {
    let front = FrontEnd::open().await;
    let (status, picture) = upload(&front, "image/gif", GIF).await;
    assert_eq!(
        (status, &picture["mimeType"], &picture["bucket"]),
        (200, &json!("image/gif"), &json!("agent-inputs"))
    );
    let url = picture["url"].as_str().unwrap();
    let nobody = kernel::Caller::Unauthenticated(None);
    let shown = front.runs.get(&nobody, &path_of(url)).await;
    assert_eq!((shown.status, shown.text()), (200, GIF));
    for (header, value) in [
        ("content-type", "image/gif"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox"),
        ("cache-control", "private"),
    ] {
        assert_eq!(shown.header(header), value);
    }
    let forged = path_of(url).replace("expires=", "expires=9");
    assert_eq!(front.runs.get(&nobody, &forged).await.status, 403);

    let first = front.run(with_picture("run-1", url)).await;
    let again =
        front.ok("agui.attachment_url", json!({ "bucket": "agent-inputs", "path": picture["path"] })).await;
    front.runs.test.world.clock.advance_ms(1000);
    let resigned =
        front.ok("agui.attachment_url", json!({ "bucket": "agent-inputs", "path": picture["path"] })).await;
    assert_ne!(resigned["url"], again["url"]);
    let retried = front.run(with_picture("run-1", resigned["url"].as_str().unwrap())).await;
    assert_eq!(task(&retried), task(&first), "the same picture under another URL");
    let history = front.ok("agui.history", json!({})).await;
    let kept = history["messages"][0]["attachments"][0]["url"].as_str().unwrap();
    assert_eq!(front.runs.get(&nobody, &path_of(kept)).await.status, 200);

    // The runner of the run gets it, by the name that the turn gives it.
    let payload: String = sqlx::query_scalar("SELECT payload FROM run_command")
        .fetch_one(front.runs.run.store.db().read())
        .await
        .unwrap();
    let payload: Value = serde_json::from_str(&payload).unwrap();
    assert_eq!(payload["attachments"], json!([{ "attachmentId": picture["path"], "mimeType": "image/gif" }]));
    let run = front.run_of_thread().await;
    let name = picture["path"].as_str().unwrap().replace('/', "%2F");
    let route = format!("/api/v1/runs/{run}/attachments/{name}");
    let runner = crate::tests::support::runner(&run, "attempt_1");
    assert_eq!(front.runs.get(&runner, &route).await.text(), GIF);
    let other = crate::tests::support::runner("run_other", "attempt_1");
    assert_eq!(front.runs.get(&other, &route).await.status, 403);
    let unused = upload(&front, "image/gif", GIF).await.1["path"].as_str().unwrap().replace('/', "%2F");
    let route = format!("/api/v1/runs/{run}/attachments/{unused}");
    assert_eq!(front.runs.get(&runner, &route).await.status, 404, "no message of the run has it");
}

#[tokio::test]
async fn what_is_no_picture_or_not_one_of_the_caller_is_refused() {
    let front = FrontEnd::open().await;
    for (kind, bytes) in
        [("image/png", GIF), ("image/svg+xml", "<svg/>"), ("image/gif", "hello"), ("text/html", "<b>")]
    {
        assert_eq!(upload(&front, kind, bytes).await.0, 422, "{kind} {bytes}");
    }
    let sentence = ("binary content url is not a valid signed URL".to_owned(), 422);
    let url = upload(&front, "image/gif", GIF).await.1["url"].as_str().unwrap().to_owned();
    for bad in [
        "https://storage.example.com/agent-inputs/user-123/image.png?signature=xxx",
        &url.replace("signature=", "signature=A"),
    ] {
        assert_eq!(front.run_refused(with_picture("run-1", bad)).await, sentence, "{bad}");
    }
    let bob = agent("bobb.aid.pub");
    let stolen =
        front.ask(&bob, "agui.run", json!({ "input": with_picture("run-1", &url) })).await.unwrap_err();
    assert_eq!((stolen.to_string(), stolen.http_status().as_u16()), sentence);
    front.runs.test.world.clock.advance_ms(16 * 60_000);
    assert_eq!(front.run_refused(with_picture("run-1", &url)).await, sentence, "over");
    assert!(front.runs.run.store.thread(THREAD).await.unwrap().is_none());
}

#[tokio::test]
async fn an_agent_uploads_a_hundred_pictures_an_hour_at_most() {
    let front = FrontEnd::open().await;
    for _ in 0..100 {
        assert_eq!(upload(&front, "image/gif", GIF).await.0, 200);
    }
    let (status, refused) = upload(&front, "image/gif", GIF).await;
    assert_eq!(
        (status, &refused["detail"]),
        (429, &json!("an agent can upload at most 100 attachments per hour"))
    );
    front.runs.test.world.clock.advance_ms(3_600_001);
    assert_eq!(upload(&front, "image/gif", GIF).await.0, 200);
}
