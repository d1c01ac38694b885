//! `/agent.md`: what an agent says about itself, published by it alone and read by everybody.

use ring::digest;
use serde_json::json;

use crate::support::agent::{TestIdentity, TestTokens};
use crate::support::http::TestResponse;
use crate::support::{ISSUER, TestServer, now, printed, until};

const MULTI: (&str, &str) = ("X-AUN-Signature-Format", "multi-v1");

fn front(aid: &str, words: &str) -> String {
    format!(
        "---\naid: \"{aid}\"\nname: \"somebody\"\ntype: \"agent\"\nversion: \"1.0.0\"\n---\n\n# {words}\n"
    )
}

/// A signature block over everything before it.
fn block(text: &str, who: &TestIdentity, tag: &str, timestamp: i64, signer: Option<&str>) -> String {
    let (certificate, signature) = (who.certificate(), who.sign(text));
    let signer = signer.map(|aid| format!("signer_aid: {aid}\n")).unwrap_or_default();
    format!(
        "<!-- AUN-SIGNATURE{tag}\ncert_fingerprint: {}\npublic_key_fingerprint: {}\n{signer}timestamp: {timestamp}\nsignature: {signature}\n-->",
        certificate.fingerprint(),
        certificate.public_key().fingerprint(),
    )
}

fn signed(who: &TestIdentity, words: &str) -> String {
    let text = front(&who.aid, words);
    let block = block(&text, who, "", now(), None);
    text + &block
}

fn etag(text: &str) -> String {
    format!("\"{}\"", hex::encode(digest::digest(&digest::SHA256, text.as_bytes())))
}

async fn put(
    server: &TestServer,
    aid: &str,
    tokens: &TestTokens,
    text: &str,
    condition: Option<(&str, &str)>,
) -> TestResponse {
    let mut request =
        server.http("PUT", "/agent.md").host(aid).bearer(&tokens.access).header(MULTI.0, MULTI.1);
    request = request.header("Content-Type", "text/markdown; charset=utf-8");
    if let Some((name, value)) = condition {
        request = request.header(name, value);
    }
    request.body(text).send().await
}

async fn get(server: &TestServer, aid: &str) -> TestResponse {
    server.http("GET", "/agent.md").host(aid).header(MULTI.0, MULTI.1).send().await
}

/// A server, and an agent that has just logged in.
async fn alice() -> (TestServer, TestIdentity, TestTokens) {
    let server = TestServer::shared().await;
    let (alice, tokens) = registered(&server, "alice").await;
    (server, alice, tokens)
}

async fn registered(server: &TestServer, name: &str) -> (TestIdentity, TestTokens) {
    let agent = server.register(name).await;
    let tokens = server.login(&agent).await;
    (agent, tokens)
}

#[tokio::test]
async fn an_agent_publishes_only_so_often() {
    let (server, alice, tokens) = alice().await;
    let text = signed(&alice, "alice");
    let mut accepted = 0;
    let refused = loop {
        let answer = put(&server, &alice.aid, &tokens, &text, None).await;
        if answer.status != 200 {
            break answer;
        }
        accepted += 1;
        assert!(accepted < 200, "nothing is refused");
    };
    assert!(accepted >= 10, "{accepted} at once");
    assert_eq!((refused.status, &refused.json()["code"]), (429, &json!("rate_limit_exceeded")));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(get(&server, &alice.aid).await.status, 200, "everybody reads it as before");
}

#[tokio::test]
async fn a_published_document_is_read_back_byte_for_byte() {
    let (server, alice, tokens) = alice().await;
    assert_eq!(get(&server, &alice.aid).await.status, 404, "there is none yet");
    let text = signed(&alice, "Ich heiße alice 你好");
    let published = put(&server, &alice.aid, &tokens, &text, Some(("If-None-Match", "*"))).await;
    assert_eq!(published.status, 200, "{}", published.text());
    let said = published.json();
    assert_eq!((&said["aid"], &said["etag"]), (&json!(alice.aid), &json!(etag(&text))));
    assert_eq!(said["agent_md_url"], format!("https://{}/agent.md", alice.aid));
    assert!(said["last_modified"].is_string());

    let read = get(&server, &alice.aid).await;
    assert_eq!((read.status, read.text()), (200, text.clone()));
    assert_eq!(read.header("content-type"), Some("text/markdown; charset=utf-8"));
    assert_eq!(read.header("etag"), Some(&*etag(&text)));
    assert!(read.header("last-modified").is_some_and(|date| date.ends_with("GMT")));
    assert_eq!(read.header("vary").map(str::to_ascii_lowercase).as_deref(), Some("x-aun-signature-format"));

    let head = server.http("HEAD", "/agent.md").host(&alice.aid).header(MULTI.0, MULTI.1).send().await;
    assert_eq!((head.status, head.header("etag")), (200, read.header("etag")));
    assert_eq!(head.header("content-length"), Some(&*text.len().to_string()));
}

#[tokio::test]
async fn the_host_decides_whose_document_it_is_whatever_the_port_and_the_tls_name() {
    let (server, alice, tokens) = alice().await;
    let text = signed(&alice, "alice");
    let gateway = format!("gateway.{ISSUER}");
    let published = server
        .http("PUT", "/agent.md")
        .host(&alice.aid)
        .over_tls(&gateway)
        .bearer(&tokens.access)
        .body(text.clone())
        .send()
        .await;
    assert_eq!(published.status, 200, "{}", published.text());
    for tls in [&gateway, ISSUER, &alice.aid] {
        for host in
            [alice.aid.clone(), format!("{}:{}", alice.aid, server.tls_port), alice.aid.to_uppercase()]
        {
            let read = server
                .http("GET", "/agent.md")
                .host(&host)
                .over_tls(tls)
                .header(MULTI.0, MULTI.1)
                .send()
                .await;
            assert_eq!((read.status, read.text()), (200, text.clone()), "{host} over {tls}");
        }
    }
    let root = server.http("GET", "/").host(&alice.aid).header(MULTI.0, MULTI.1).send().await;
    assert_eq!((root.status, root.text()), (200, text.clone()), "its front page says the same to agents");
    for host in [ISSUER, &gateway, "nobody1.agents.localhost", "alice.elsewhere.example"] {
        assert_eq!(get(&server, host).await.status, 404, "{host}");
    }
}

#[tokio::test]
async fn a_document_changes_only_from_the_state_its_writer_saw() {
    let (server, alice, tokens) = alice().await;
    let (first, second, third) = (signed(&alice, "one"), signed(&alice, "two"), signed(&alice, "three"));
    assert_eq!(
        put(&server, &alice.aid, &tokens, &first, Some(("If-Match", &etag(&first)))).await.status,
        412,
        "nothing is there"
    );
    assert_eq!(put(&server, &alice.aid, &tokens, &first, Some(("If-None-Match", "*"))).await.status, 200);
    assert_eq!(put(&server, &alice.aid, &tokens, &second, Some(("If-None-Match", "*"))).await.status, 412);
    assert_eq!(
        put(&server, &alice.aid, &tokens, &second, Some(("If-Match", &etag(&third)))).await.status,
        412
    );
    let unreadable = put(&server, &alice.aid, &tokens, &second, Some(("If-Match", "\"é\""))).await;
    assert_eq!(unreadable.status, 400, "it is not as if nothing had been asked for: {}", unreadable.text());
    assert_eq!(get(&server, &alice.aid).await.text(), first);
    assert_eq!(
        put(&server, &alice.aid, &tokens, &second, Some(("If-Match", &etag(&first)))).await.status,
        200
    );
    assert_eq!(
        put(&server, &alice.aid, &tokens, &third, None).await.status,
        200,
        "old clients name no condition"
    );
    assert_eq!(get(&server, &alice.aid).await.text(), third);
}

#[tokio::test]
async fn of_many_writers_that_saw_the_same_state_one_wins() {
    let (server, alice, tokens) = alice().await;
    let first = signed(&alice, "first");
    assert_eq!(put(&server, &alice.aid, &tokens, &first, None).await.status, 200);
    let drafts: Vec<String> = (0..6).map(|n| signed(&alice, &format!("draft {n}"))).collect();
    let seen = etag(&first);
    let writes =
        drafts.iter().map(|draft| put(&server, &alice.aid, &tokens, draft, Some(("If-Match", &seen))));
    let statuses: Vec<u16> =
        futures_util::future::join_all(writes).await.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 412).count(), 5, "{statuses:?}");
    let winner = statuses.iter().position(|status| *status == 200).unwrap();
    assert_eq!(get(&server, &alice.aid).await.text(), drafts[winner]);
}

#[tokio::test]
async fn a_reader_that_has_it_already_gets_304() {
    let (server, alice, tokens) = alice().await;
    let text = signed(&alice, "alice");
    put(&server, &alice.aid, &tokens, &text, None).await;
    let modified = get(&server, &alice.aid).await.header("last-modified").unwrap().to_owned();
    let ask = |name: &'static str, value: String| {
        let request = server.http("GET", "/agent.md").host(&alice.aid).header(MULTI.0, MULTI.1);
        async move { request.header(name, &value).send().await }
    };
    for value in [etag(&text), format!("\"other\", {}", etag(&text)), "*".to_owned()] {
        let answer = ask("If-None-Match", value.clone()).await;
        assert_eq!((answer.status, answer.body.len()), (304, 0), "{value}");
        assert_eq!(answer.header("etag"), Some(&*etag(&text)));
    }
    assert_eq!(ask("If-Modified-Since", modified).await.status, 304);
    assert_eq!(ask("If-None-Match", "\"other\"".to_owned()).await.status, 200);
    assert_eq!(ask("If-Modified-Since", "Thu, 01 Jan 2026 00:00:00 GMT".to_owned()).await.status, 200);
    assert_eq!(ask("If-Modified-Since", "whenever".to_owned()).await.status, 200);
}

#[tokio::test]
async fn nobody_writes_for_somebody_else() {
    let (server, alice, tokens) = alice().await;
    let carol = server.register("carol").await;
    let hers = server.login(&carol).await;
    let text = signed(&alice, "alice");
    let write = |token: Option<String>| {
        let mut request = server.http("PUT", "/agent.md").host(&alice.aid);
        if let Some(token) = token {
            request = request.header("Authorization", &token);
        }
        let text = text.clone();
        async move { request.body(text).send().await.status }
    };
    assert_eq!(write(None).await, 401);
    assert_eq!(write(Some("Bearer not-a-token".to_owned())).await, 401);
    assert_eq!(write(Some(format!("Basic {}", tokens.access))).await, 401);
    assert_eq!(write(Some(format!("Bearer {}", tokens.refresh))).await, 401);
    assert_eq!(write(Some(format!("Bearer {}", hers.access))).await, 403, "her token is not his");
    assert_eq!(get(&server, &alice.aid).await.status, 404, "nothing was left behind");
    assert_eq!(
        write(Some(format!("bearer {}", tokens.access))).await,
        200,
        "the scheme's case does not matter"
    );

    let about_carol = signed(&carol, "carol");
    assert_eq!(
        put(&server, &alice.aid, &tokens, &about_carol, None).await.status,
        403,
        "his host, her document"
    );
}

#[tokio::test]
async fn a_document_that_is_not_well_made_is_400() {
    let (server, alice, tokens) = alice().await;
    let good = front(&alice.aid, "alice");
    let broken = [
        "# no front matter\n".to_owned(),
        String::new(),
        good.replace("name: \"somebody\"\n", ""),
        good.replace("1.0.0", "one and a half"),
        good.replace("name: \"somebody\"", "name: \"somebody\"\nname: \"twice\""),
        good.replace("name: \"somebody\"", "name: &a somebody"),
        good.replace("type: \"agent\"", "type: \"group\""),
        good.replace("version:", &format!("description: \"{}\"\nversion:", "x".repeat(101))),
        good.replace("version:", "description: \"\"\nversion:"),
        good.replace("version:", "visibility: hidden\nversion:"),
        good.replace("version:", "tags: [1]\nversion:"),
        good.replace("version:", &format!("tags: [{}]\nversion:", vec!["x"; 17].join(", "))),
        good.replace("version:", "tags: [!!str x]\nversion:"),
        good.replace("version:", "tags: &a [x]\nversion:"),
        good.replace("name: \"somebody\"", "name: \"\""),
        format!("{good}<!-- AUN-SIGNATURE\ntimestamp: 5\n-->"),
        format!("{good}<!-- AUN-SIGNATURE\n"),
        format!("{}\ntext behind it", signed(&alice, "alice")),
    ];
    for (number, text) in broken.into_iter().enumerate() {
        // An agent may not publish so often.
        let (somebody, tokens) = registered(&server, &format!("somebody{number}")).await;
        let text = text.replace(&alice.aid, &somebody.aid);
        let answer = put(&server, &somebody.aid, &tokens, &text, None).await;
        assert_eq!(answer.status, 400, "{}: {text}", answer.text());
        assert!(answer.json()["error"].is_string(), "it says why");
    }
    let answer = server
        .http("PUT", "/agent.md")
        .host(&alice.aid)
        .bearer(&tokens.access)
        .body(b"---\n\xff\xfe".to_vec())
        .send()
        .await;
    assert_eq!(answer.status, 400, "not UTF-8");
    assert_eq!(get(&server, &alice.aid).await.status, 404, "nothing was left behind");
}

#[tokio::test]
async fn a_signature_that_is_not_true_is_400() {
    let (server, alice, tokens) = alice().await;
    let carol = server.register("carol").await;
    let text = front(&alice.aid, "alice");
    let touched = signed(&alice, "alice").replace("# alice", "# mallory");
    let unknown = signed(&alice, "alice")
        .replace(alice.certificate().fingerprint(), &format!("sha256:{}", "0".repeat(64)));
    let forged = [
        touched,
        unknown,
        text.clone() + &block(&text, &carol, "", now(), None),
        text.clone()
            + &block(&text, &TestIdentity { key: carol.key.clone(), ..alice.clone() }, "", now(), None),
        text.clone() + &block(&text, &alice, "", now() + 4000, None),
        text.clone() + &block(&text, &alice, "", 1_000_000_000, None),
    ];
    for text in forged {
        let answer = put(&server, &alice.aid, &tokens, &text, None).await;
        assert_eq!(answer.status, 400, "{}: {text}", answer.text());
    }
    assert_eq!(
        put(&server, &alice.aid, &tokens, &text, None).await.status,
        200,
        "old clients publish unsigned documents"
    );
}

#[tokio::test]
async fn the_first_signature_is_the_agents_own_and_stays() {
    let (server, alice, tokens) = alice().await;
    let carol = server.register("carol").await;
    let text = front(&alice.aid, "alice");
    for tag in ["", "-OWNER"] {
        let hers = text.clone() + &block(&text, &carol, tag, now(), Some(&carol.aid));
        let both = hers.clone() + &block(&hers, &alice, "-SELF", now(), Some(&alice.aid));
        for document in [hers, both] {
            let answer = put(&server, &alice.aid, &tokens, &document, None).await;
            assert_eq!(answer.status, 400, "{}", answer.text());
            assert!(answer.text().contains("signature block 1"), "{}", answer.text());
        }
    }
    assert_eq!(get(&server, &alice.aid).await.status, 404, "nothing was left behind");

    let signed = signed(&alice, "alice");
    assert_eq!(put(&server, &alice.aid, &tokens, &signed, None).await.status, 200);
    for condition in [None, Some(("If-Match", etag(&signed)))] {
        let condition = condition.as_ref().map(|(name, value)| (*name, value.as_str()));
        let answer = put(&server, &alice.aid, &tokens, &text, condition).await;
        assert_eq!(answer.status, 400, "an unsigned one: {}", answer.text());
    }
    assert_eq!(get(&server, &alice.aid).await.text(), signed);
}

#[tokio::test]
async fn a_document_with_a_secret_is_422() {
    let (server, alice, tokens) = alice().await;
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
    for secret in ["-----BEGIN EC PRIVATE KEY-----", "client_secret: x", "password: hunter2222", token] {
        let answer = put(&server, &alice.aid, &tokens, &signed(&alice, secret), None).await;
        assert_eq!((answer.status, &answer.json()["code"]), (422, &json!("secret_detected")), "{secret}");
        assert!(!answer.text().contains(secret), "it is not repeated: {}", answer.text());
    }
    let own_key = "my api_key: 9f8e7d6c5b4a, for you";
    let answer = put(&server, &alice.aid, &tokens, &signed(&alice, own_key), None).await;
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(answer.text().contains("line 8 has what looks like a key"), "{}", answer.text());
    let harmless = signed(&alice, "I never ask for a password, a client_secret or a PRIVATE KEY");
    assert_eq!(put(&server, &alice.aid, &tokens, &harmless, None).await.status, 200);
}

#[tokio::test]
async fn ordinary_prose_is_published() {
    let (server, alice, tokens) = alice().await;
    for prose in [
        "Key: value pairs are stored as they come. The secret: short-lived, audience-bound tokens.",
        "密码：由用户在自己的设备上输入。密钥：保存在本地设备的安全区域里。",
        "token: <token>, api_key=YOUR_API_KEY_1, key: sha256:9f86d081884c7d659a2feaa0c55ad015",
        "Read [how](https://www.example.com/search?key=a1b2c3d4e5), label_i18n_key: agent.scope.filesystem_read.label",
    ] {
        let answer = put(&server, &alice.aid, &tokens, &signed(&alice, prose), None).await;
        assert_eq!(answer.status, 200, "{prose}: {}", answer.text());
        assert!(answer.json().get("warnings").is_none(), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_version_is_stored_as_it_is_written_and_the_answer_warns() {
    let (server, alice, tokens) = alice().await;
    for version in ["1.10", "v1.0.0", "1.0.0-rc1", "2026-11-01"] {
        let text = front(&alice.aid, "alice").replace("\"1.0.0\"", version);
        let published = put(&server, &alice.aid, &tokens, &text, None).await;
        assert_eq!(published.status, 200, "{version}: {}", published.text());
        let warnings = published.json()["warnings"].clone();
        assert_eq!(warnings[0]["path"], "/version", "{warnings}");
        assert!(
            warnings[0]["message"].as_str().is_some_and(|said| said.contains("fastaun 0.5.25")),
            "{warnings}"
        );
        assert_eq!(get(&server, &alice.aid).await.text(), text);
    }
    let refused = front(&alice.aid, "alice").replace("\"1.0.0\"", "one and a half");
    let refused = put(&server, &alice.aid, &tokens, &refused, None).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("version must have 1 to 32 characters"), "{}", refused.text());
}

#[tokio::test]
async fn an_agent_removes_its_own_document() {
    let (server, alice, tokens) = alice().await;
    let carol = server.register("carol").await;
    let hers = server.login(&carol).await;
    let text = signed(&alice, "alice");
    let delete = |token: Option<&str>, etag: Option<String>| {
        let mut request = server.http("DELETE", "/agent.md").host(&alice.aid);
        if let Some(token) = token {
            request = request.bearer(token);
        }
        if let Some(etag) = etag {
            request = request.header("If-Match", &etag);
        }
        async move { request.send().await }
    };
    assert_eq!(delete(Some(&tokens.access), None).await.status, 404, "there is none yet");
    assert_eq!(put(&server, &alice.aid, &tokens, &text, None).await.status, 200);
    assert_eq!(delete(None, None).await.status, 401);
    assert_eq!(delete(Some(&hers.access), None).await.status, 403);
    assert_eq!(delete(Some(&tokens.access), Some(etag("another"))).await.status, 412);
    assert_eq!(get(&server, &alice.aid).await.text(), text);
    let deleted = delete(Some(&tokens.access), Some(etag(&text))).await;
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    assert_eq!(get(&server, &alice.aid).await.status, 404);
    assert_eq!(put(&server, &alice.aid, &tokens, &text, Some(("If-None-Match", "*"))).await.status, 200);
    let other = server.http("PATCH", "/agent.md").host(&alice.aid).send().await;
    assert_eq!((other.status, other.header("allow")), (405, Some("GET,HEAD,PUT,DELETE")));
}

#[tokio::test]
async fn a_browser_gets_a_page_that_runs_nothing() {
    let (server, alice, tokens) = alice().await;
    let text = signed(
        &alice,
        "Hello\n\n<script>alert(1)</script>\n\n[x](javascript:alert(1)) ![a cat](https://x.example/cat.png)",
    );
    assert_eq!(put(&server, &alice.aid, &tokens, &text, None).await.status, 200);
    let ask = |path: &'static str, accept: &'static str| {
        server.http("GET", path).host(&alice.aid).header("Accept", accept).send()
    };
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let page = ask("/", browser).await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let html = page.text();
    assert!(html.contains("<h1>Hello</h1>") && html.contains("&lt;script&gt;") && html.contains("a cat"));
    for forbidden in ["<script", "javascript:", "<img", "cat.png"] {
        assert!(!html.contains(forbidden), "{forbidden} in {html}");
    }
    let policy = page.header("content-security-policy").unwrap_or_default();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    for (path, accept) in [("/", "*/*"), ("/", "text/markdown"), ("/agent.md", browser)] {
        let document = ask(path, accept).await;
        assert_eq!((document.status, document.text()), (200, text.clone()), "{path} for {accept}");
    }
}

#[tokio::test]
async fn the_document_of_a_revoked_agent_is_gone() {
    let server = TestServer::start().await;
    let (alice, carol) = (server.register("alice").await, server.register("carol").await);
    for agent in [&alice, &carol] {
        let tokens = server.login(agent).await;
        assert_eq!(put(&server, &agent.aid, &tokens, &signed(agent, "text"), None).await.status, 200);
    }
    let output = server.aund(&["certs", "revoke", &alice.aid]).await;
    assert!(output.status.success(), "{}", printed(&output.stderr));
    until("the document is gone", || async { (get(&server, &alice.aid).await.status == 404).then_some(()) })
        .await;
    assert_eq!(get(&server, &carol.aid).await.status, 200, "nobody else is touched");
}

#[tokio::test]
async fn a_document_that_is_too_long_is_413() {
    let (server, alice, tokens) = alice().await;
    let padded = |length: usize| {
        let text = front(&alice.aid, "alice");
        format!("{text}{}\n", "x".repeat(length - text.len() - 1))
    };
    let sign = |text: String| {
        let block = block(&text, &alice, "", now(), None);
        text + &block
    };
    assert_eq!(
        put(&server, &alice.aid, &tokens, &sign(padded(4096)), None).await.status,
        200,
        "4096 bytes fit"
    );
    for text in [sign(padded(4097)), padded(6200), padded(200_000)] {
        let answer = put(&server, &alice.aid, &tokens, &text, None).await;
        assert_eq!(answer.status, 413, "{} bytes", text.len());
    }
    let mut blocks = signed(&alice, "alice");
    for _ in 0..8 {
        let next = block(&blocks, &alice, "-MORE", now(), Some(&alice.aid));
        blocks += &next;
    }
    assert_eq!(
        put(&server, &alice.aid, &tokens, &blocks, None).await.status,
        413,
        "so are 2048 bytes of signatures"
    );
}

#[tokio::test]
async fn readers_of_one_signature_get_one_and_its_own_etag() {
    let (server, alice, tokens) = alice().await;
    let carol = server.register("carol").await;
    let one = signed(&alice, "alice");
    let both = format!("{one}{}", block(&one, &carol, "-WITNESS", now(), Some(&carol.aid)));
    let answer = put(&server, &alice.aid, &tokens, &both, None).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["etag"], etag(&both));

    let multi = get(&server, &alice.aid).await;
    assert_eq!((multi.text(), multi.header("etag")), (both.clone(), Some(&*etag(&both))));
    let single = server.http("GET", "/agent.md").host(&alice.aid).send().await;
    assert_eq!((single.status, single.text()), (200, one.clone()));
    assert_eq!(single.header("etag"), Some(&*etag(&one)));

    let text = front(&alice.aid, "alice");
    let tagged = text.clone() + &block(&text, &alice, "-PRIMARY", now(), Some(&alice.aid));
    if put(&server, &alice.aid, &tokens, &tagged, None).await.status == 200 {
        let single = server.http("GET", "/agent.md").host(&alice.aid).send().await.text();
        assert!(single.contains("<!-- AUN-SIGNATURE\n") && !single.contains("signer_aid"), "{single}");
    }
}

#[tokio::test]
async fn documents_survive_a_restart() {
    let mut server = TestServer::start().await;
    let alice = server.register("alice").await;
    let tokens = server.login(&alice).await;
    let text = signed(&alice, "alice");
    put(&server, &alice.aid, &tokens, &text, None).await;
    server.kill();
    server.start_again();
    assert_eq!(get(&server, &alice.aid).await.text(), text);
}

#[tokio::test]
async fn a_key_that_was_replaced_speaks_only_for_the_time_before() {
    let (server, alice, tokens) = alice().await;
    let renewed = server.rekey(&alice).await;
    let text = front(&alice.aid, "alice");
    let by = |who: &TestIdentity, at: i64| text.clone() + &block(&text, who, "", at, None);
    assert_eq!(
        put(&server, &alice.aid, &tokens, &by(&alice, now() + 5), None).await.status,
        400,
        "it is replaced by now"
    );
    assert_eq!(
        put(&server, &alice.aid, &tokens, &by(&alice, now() - 100), None).await.status,
        200,
        "it was current then"
    );
    assert_eq!(put(&server, &alice.aid, &tokens, &by(&renewed, now()), None).await.status, 200);
}
