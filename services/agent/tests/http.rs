//! `/agent.md` and the front page.

use super::signed;
use axum::http::Request;
use axum::http::request::Builder;
use kernel::Caller;
use kernel::http::HOST_AGENT;
use serde_json::json;
use testing::{TestAgent, TestWorld};

fn request(method: &str, host: &str) -> Builder {
    Request::builder().method(method).uri("/agent.md").header(HOST_AGENT, host)
}

fn front_page(host: &str, accept: &str) -> Builder {
    Request::builder().uri("/").header(HOST_AGENT, host).header("accept", accept)
}

/// A world with an agent, and the document that it has published.
async fn published(text: &str) -> (TestWorld, TestAgent, String) {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let alice = test.register("alice").await;
    let content = signed(&test, &alice, &alice.aid, text);
    test.inside("agent.put_agent_md", json!({ "aid": alice.aid, "content": content })).await;
    (test, alice, content)
}

#[tokio::test]
async fn over_http_everybody_reads_and_the_agent_itself_writes() {
    let test = TestWorld::with(&["ca", "auth"]).and(crate::open).await;
    let (alice, carol) = (test.register("alice").await, test.register("carol").await);
    let content = signed(&test, &alice, &alice.aid, "text");
    let put =
        async |caller: Caller| test.http_with("agent", &caller, request("PUT", &alice.aid), &content).await;
    let refused = put(Caller::Unauthenticated(None)).await;
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, "Bearer"));
    assert_eq!(put(carol.by_token()).await.status, 403);
    let published = put(alice.by_token()).await;
    assert_eq!(
        (published.status, published.header("etag")),
        (200, published.json()["etag"].as_str().unwrap())
    );

    let nobody = &Caller::Unauthenticated(None);
    let multi = || request("GET", &alice.aid).header("x-aun-signature-format", "multi-v1");
    let read = test.http("agent", nobody, multi()).await;
    assert_eq!((read.status, read.text()), (200, &*content));
    assert_eq!(read.header("content-type"), "text/markdown; charset=utf-8");
    let again = test.http("agent", nobody, multi().header("if-none-match", read.header("etag"))).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(test.http("agent", nobody, request("GET", &carol.aid)).await.status, 404);
    let gateway = Request::builder().uri("/agent.md");
    assert_eq!(test.http("agent", nobody, gateway).await.status, 404, "no agent's host");
    let other = test.http("agent", nobody, request("PATCH", &alice.aid)).await;
    assert_eq!((other.status, other.header("allow")), (405, "GET,HEAD,PUT,DELETE"));
}

#[tokio::test]
async fn an_agent_removes_its_own_document_and_nobody_else_does() {
    let (test, alice, _) = published("text").await;
    let carol = test.register("carol").await;
    let nobody = &Caller::Unauthenticated(None);
    let delete = async |caller: &Caller, etag: Option<&str>| {
        let request = request("DELETE", &alice.aid);
        let request = match etag {
            Some(etag) => request.header("if-match", etag),
            None => request,
        };
        test.http("agent", caller, request).await
    };
    let refused = delete(nobody, None).await;
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, "Bearer"));
    assert_eq!(delete(&carol.by_token(), None).await.status, 403);
    let other = delete(&alice.by_token(), Some("\"other\"")).await;
    assert_eq!((other.status, &other.json()["code"]), (412, &json!("agent_md_changed")));

    let multi = request("GET", &alice.aid).header("x-aun-signature-format", "multi-v1");
    let read = test.http("agent", nobody, multi).await;
    let deleted = delete(&alice.by_token(), Some(read.header("etag"))).await;
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    assert_eq!(test.http("agent", nobody, request("GET", &alice.aid)).await.status, 404);
    assert_eq!(test.http("agent", nobody, front_page(&alice.aid, "text/html")).await.status, 404);
    for condition in [None, Some("*"), Some(read.header("etag"))] {
        assert_eq!(delete(&alice.by_token(), condition).await.status, 404, "there is none any more");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_document_is_said_with_its_status() {
    let (test, alice, content) = published("text").await;
    let put = async |content: &str| {
        test.http_with("agent", &alice.by_token(), request("PUT", &alice.aid), content).await
    };
    let secret = put(&signed(&test, &alice, &alice.aid, "client_secret: x")).await;
    assert_eq!((secret.status, &secret.json()["code"]), (422, &json!("secret_detected")));
    let malformed = put(&content.replace("name: \"a\"", "name: \"\"")).await;
    assert_eq!(malformed.status, 400);
    assert_eq!(malformed.json()["error"], "front matter: name must not be empty");
    assert_eq!(put(&content.replace("text", "tex2")).await.status, 400);
    assert_eq!(put(&"x".repeat(5000)).await.status, 413);
}

#[tokio::test]
async fn a_browser_gets_a_page_and_everybody_else_the_document() {
    let (test, alice, content) = published("# Hello\n\n<script>alert(1)</script>").await;
    let nobody = &Caller::Unauthenticated(None);
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let page = test.http("agent", nobody, front_page(&alice.aid, browser)).await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.text().contains("<h1>Hello</h1>") && !page.text().contains("<script"), "{}", page.text());
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    assert_eq!(page.header("referrer-policy"), "no-referrer");
    assert_eq!(page.header("vary"), "Accept, X-AUN-Signature-Format");
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(policy.ends_with("; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"), "{policy}");

    let again = front_page(&alice.aid, browser).header("if-none-match", page.header("etag"));
    let again = test.http("agent", nobody, again).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    for accept in ["*/*", "text/markdown", "application/json", "", "text/html;q=0"] {
        let read = test.http("agent", nobody, front_page(&alice.aid, accept)).await;
        assert_eq!((read.status, read.text()), (200, &*content), "{accept}");
        assert_eq!(read.header("content-type"), "text/markdown; charset=utf-8");
        assert_eq!(read.header("vary"), "Accept, X-AUN-Signature-Format");
        assert_ne!(read.header("etag"), page.header("etag"));
    }
    let document = test.http("agent", nobody, request("GET", &alice.aid).header("accept", browser)).await;
    assert_eq!((document.text(), document.header("vary")), (&*content, "X-AUN-Signature-Format"));
    let head = front_page(&alice.aid, browser).method("HEAD");
    let head = test.http("agent", nobody, head).await;
    assert_eq!((head.status, head.body.len(), head.header("etag")), (200, 0, page.header("etag")));
    assert_eq!(test.http("agent", nobody, front_page("nobody.aid.pub", browser)).await.status, 404);
}
