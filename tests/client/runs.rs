//! `aund runs`: what the operator and an agent of a tenant see of runs, and what they do with them.

use serde_json::{Value, json};

use super::agent_cli::AgentCli;
use crate::support::agent::text;
use crate::support::{TestServer, printed, until};

/// Every agent of the domain acts for the tenant.
const SETTINGS: &str = "run.tenants.unidesk = { aids = [\"*\"] }\nrun.tenants.hwlab = {}";

/// A run whose client and runner are this test.
struct CommandedRun {
    server: TestServer,
    token: String,
    runner_token: String,
    run: String,
    command: String,
    attempt: String,
    runner: String,
}

impl CommandedRun {
    /// With a command that waits.
    async fn begin() -> CommandedRun {
        let server = TestServer::shared_with(SETTINGS).await;
        let token = runs(&server, &["token", "unidesk"]).await.trim().to_owned();
        let nobody = String::new;
        let (command, attempt, runner) = (nobody(), nobody(), nobody());
        let mut played =
            CommandedRun { server, token, runner_token: nobody(), run: nobody(), command, attempt, runner };
        let created = played
            .asked(
                "POST",
                "/runs",
                json!({ "tenantId": "unidesk", "projectId": "acme/\u{202e}site", "workspaceRef": {},
                    "providerId": "local", "backendProfile": "example", "traceSink": null }),
            )
            .await;
        played.run = text(&created["runId"]);
        played.submit("What is the capital of Germany?").await;
        played
    }

    async fn submit(&mut self, prompt: &str) {
        let turn = json!({ "type": "turn", "payload": { "prompt": prompt } });
        let submitted = self.asked("POST", &format!("/runs/{}/commands", self.run), turn).await;
        self.command = text(&submitted["commandId"]);
    }

    /// A runner takes the command.
    async fn claim(&mut self) {
        let job = json!({ "commandId": self.command, "launcher": "external" });
        let job = self.asked("POST", &format!("/runs/{}/runner-jobs", self.run), job).await;
        (self.runner_token, self.attempt) = (text(&job["runnerToken"]), text(&job["attemptId"]));
        let register = json!({ "runId": self.run, "attemptId": self.attempt, "backendProfile": "example",
            "placement": "host-process" });
        self.runner = text(&self.worked("POST", "/runners/register", register).await["runnerId"]);
        let claim = json!({ "runnerId": self.runner, "attemptId": self.attempt });
        self.worked("POST", &format!("/runs/{}/claim", self.run), claim).await;
        self.worked("POST", &format!("/commands/{}/ack", self.command), self.lease(json!({}))).await;
    }

    async fn append(&self, id: &str, kind: &str, payload: Value) {
        let event =
            json!({ "clientEventId": id, "type": kind, "commandId": self.command, "payload": payload });
        self.worked("POST", &format!("/runs/{}/events", self.run), self.lease(event)).await;
    }

    async fn complete(&self) {
        let status = self.lease(json!({ "status": "completed" }));
        self.worked("PATCH", &format!("/commands/{}/status", self.command), status).await;
    }

    /// What is said with the lease of the first runner.
    fn lease(&self, mut body: Value) -> Value {
        (body["runnerId"], body["epoch"]) = (json!(self.runner), json!(1));
        body
    }

    async fn asked(&self, method: &str, path: &str, body: Value) -> Value {
        self.sent(&self.token, method, path, body).await
    }

    async fn worked(&self, method: &str, path: &str, body: Value) -> Value {
        self.sent(&self.runner_token, method, path, body).await
    }

    async fn sent(&self, token: &str, method: &str, path: &str, body: Value) -> Value {
        let request = self.server.http(method, &format!("/api/v1{path}")).bearer(token);
        let answer = request.header("content-type", "application/json").body(body.to_string()).send().await;
        let mut answered = answer.json();
        assert_eq!(answered["ok"], true, "{method} {path}: {answered}");
        answered["data"].take()
    }

    /// What an operator's command prints, which must succeed.
    async fn printed(&self, words: &[&str]) -> String {
        runs(&self.server, words).await
    }
}

/// `aund runs` of the operator.
async fn runs(server: &TestServer, words: &[&str]) -> String {
    let output = server.aund_on("run", &[&["runs"], words].concat()).await;
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", printed(&output.stderr));
    printed(&output.stdout)
}

/// The sentence of a command of the operator that must fail, and its code.
async fn refused(server: &TestServer, words: &[&str]) -> (Option<i32>, String) {
    let output = server.aund_on("run", &[&["runs"], words].concat()).await;
    (output.status.code(), printed(&output.stderr))
}

#[tokio::test]
async fn a_token_is_printed_alone_and_refused_after_it_is_revoked() {
    let server = TestServer::shared_with(SETTINGS).await;
    for (words, prefix, whose) in
        [(["token", "hwlab"], "art_", "hwlab"), (["token", "--admin"], "ara_", "admin")]
    {
        let token = runs(&server, &words).await;
        let token = token.strip_suffix('\n').expect("a line");
        assert!(token.len() == 44 && token.starts_with(prefix), "{token}");
        let status = || async { server.http("GET", "/api/v1/runs").bearer(token).send().await.status };
        assert_eq!(status().await, 200);

        let (begin, rest) = token.split_at(12);
        let listed = runs(&server, &["token", "--list"]).await;
        let line = listed.lines().find(|line| line.starts_with(begin)).expect("it is listed");
        assert!(line.ends_with(&format!("Z  {whose}")) && !listed.contains(rest), "{line}");
        assert_eq!(runs(&server, &["token", "--revoke", begin]).await, "revoked 1 token\n");
        until("the token is refused", || async { (status().await == 401).then_some(()) }).await;
        let (code, sentence) = refused(&server, &["token", "--revoke", begin]).await;
        assert!(code == Some(1) && sentence.contains("no valid token begins with"), "{sentence}");
    }
    let (code, sentence) = refused(&server, &["token", "nobody"]).await;
    assert!(code == Some(1) && sentence.contains("nobody"), "{sentence}");
    assert_eq!(refused(&server, &["token"]).await.0, Some(2));
}

#[tokio::test]
async fn the_operator_sees_a_run_from_its_beginning_to_its_end() {
    let mut played = CommandedRun::begin().await;
    let (run, command) = (played.run.clone(), played.command.clone());
    let line = |listed: &str| listed.lines().find(|line| line.starts_with(&run)).map(str::to_owned);
    let listed = line(&played.printed(&["list", "--tenant", "unidesk", "--limit", "500"]).await);
    assert!(listed.is_some_and(|line| line.contains("unidesk acme/\\u202esite  example")));
    let shown = played.printed(&["show", &run]).await;
    assert!(shown.contains("now       waiting-runner: no runner has taken it yet\n"), "{shown}");
    assert!(shown.contains(&format!("POST /api/v1/runs/{run}/runner-jobs\n")), "{shown}");
    assert!(shown.contains("turn: What is the capital of Germany?\n"), "{shown}");
    let (code, sentence) = refused(&played.server, &["result", &run]).await;
    assert_eq!(
        (code, sentence),
        (Some(3), format!("aund: {command} is pending: no runner has taken it yet\n"))
    );

    played.claim().await;
    played.append("1", "approval_request", json!({ "approvalId": "q1", "reason": "May \u{1b}[2JI?" })).await;
    let shown = played.printed(&["show", &run]).await;
    assert!(shown.contains("now       waiting-approval: "), "{shown}");
    let asked = played.printed(&["approve", &run]).await;
    assert!(asked.starts_with("q1 asks: May \\u001b[2JI?  (accept, decline, cancel, until 2"), "{asked}");
    assert_eq!(played.printed(&["approve", &run, "q1", "accept"]).await, "answered q1: accept\n");
    assert_eq!(played.printed(&["approve", &run, "q1", "accept"]).await, "answered q1: accept\n");
    assert_eq!(refused(&played.server, &["approve", &run, "q1", "decline"]).await.0, Some(1));
    assert_eq!(refused(&played.server, &["approve", &run, "q1"]).await.0, Some(2));

    played.append("2", "assistant_message", json!({ "text": "Berlin.\u{1b}[2J\nYes.", "final": true })).await;
    played.complete().await;
    let output = played.server.aund_on("run", &["runs", "result", &run]).await;
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(printed(&output.stdout), "Berlin.\u{1b}[2J\nYes.\n", "into a pipe it is what it is");
    assert_eq!(printed(&output.stderr), format!("{command} is completed\n"));

    let cancelled = played.printed(&["cancel", &run, "--reason", "done"]).await;
    assert_eq!(cancelled, format!("cancelled  {run}\n"));
    let log = played.printed(&["watch", &run]).await;
    let log: Vec<&str> =
        log.lines().map(|line| line.split_once('#').map_or(line, |(_, said)| said)).collect();
    assert_eq!(
        log,
        [
            "1  ? asks: May \\u001b[2JI?  (accept, decline, cancel)  q1",
            "2  replies: Berlin.\\u001b[2J",
            "    Yes.",
            &format!("3  {command} is completed"),
            "4  the run is cancelled: done",
        ]
    );
    assert_eq!(played.printed(&["watch", &run, "--after", "3"]).await.lines().count(), 1);
    assert_eq!(played.printed(&["watch", &run, "--after", "4"]).await, "", "there is nothing to wait for");
    assert_eq!(line(&played.printed(&["list", "--limit", "500"]).await), None);
    let ended = line(&played.printed(&["list", "--all", "--limit", "500"]).await);
    assert!(ended.is_some_and(|line| line.contains("  cancelled  ") || line.contains("  cancelled ")));
}

#[tokio::test]
async fn a_command_that_runs_is_cancelled_when_its_runner_confirms_it() {
    let mut played = CommandedRun::begin().await;
    played.claim().await;
    let command = played.command.clone();
    let asked = played.printed(&["cancel", &command]).await;
    assert!(asked.starts_with("acknowledged  ") && asked.contains("its runner was asked to stop"), "{asked}");
    let status = played.lease(json!({ "status": "cancelled" }));
    played.worked("PATCH", &format!("/commands/{command}/status"), status).await;
    let (code, sentence) = refused(&played.server, &["result", &played.run]).await;
    assert!(code == Some(3) && sentence.starts_with(&format!("aund: {command} is cancelled")), "{sentence}");
    assert_eq!(played.printed(&["cancel", &command]).await, format!("cancelled  {command}\n"));
    let (code, sentence) = refused(&played.server, &["cancel", "site"]).await;
    assert!(
        code == Some(1) && sentence.contains("neither a run (run_…) nor a command (cmd_…)"),
        "{sentence}"
    );
    assert_eq!(refused(&played.server, &["show", "run_unknown"]).await.0, Some(1));
}

#[tokio::test]
async fn an_agent_of_a_tenant_follows_a_run_over_its_connection() {
    let mut played = CommandedRun::begin().await;
    let cli = AgentCli::with(&played.server, &["alice"]).await;
    let run = played.run.clone();
    let listed = cli.run(&["runs", "list", "--as", "alice", "--limit", "500"]).await;
    assert!(listed.contains(&run), "{listed}");
    let watching = cli.command(&["runs", "watch", &run, "--as", "alice"]).spawn().expect("it starts");
    played.claim().await;
    for n in 1..=20 {
        played.append(&format!("{n}"), "assistant_message", json!({ "text": format!("part {n}") })).await;
    }
    played.complete().await;
    let reply = cli.run(&["runs", "result", &run, "--as", "alice"]).await;
    assert_eq!(reply, "part 20\n");
    cli.run(&["runs", "cancel", &run, "--as", "alice"]).await;
    let watched = crate::support::within("the watcher", watching.wait_with_output()).await.expect("it ends");
    let log = printed(&watched.stdout);
    let seqs: Vec<i64> =
        log.lines().filter_map(|line| line.split_once('#')?.1.split(' ').next()?.parse().ok()).collect();
    assert_eq!(seqs, (1..=22).collect::<Vec<_>>(), "{log}");
    assert_eq!(watched.status.code(), Some(0));
    // What is for the operator only.
    assert_eq!(
        cli.output_of(&["runs", "profiles", "example", "--delete", "--as", "alice"]).await.status.code(),
        Some(2)
    );
}

#[tokio::test]
async fn a_credential_is_stored_and_never_shown() {
    let server = TestServer::shared_with(SETTINGS).await;
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("key").display().to_string();
    std::fs::write(&file, "sk-secret-of-the-test\n").expect("a file can be written");
    let listed = runs(&server, &["profiles"]).await;
    let state = |listed: &str, name: &str| {
        let line = listed.lines().find(|line| line.starts_with(name)).expect("it is listed").to_owned();
        line.split_once("  ").map(|(_, rest)| rest.trim().to_owned())
    };
    assert_eq!(state(&listed, "example").unwrap_or_default(), "process-jsonl   ready, needs no credential");
    let words = ["profiles", "acme", "--set-credential", &file, "--model", "m-1", "--json"];
    let set = runs(&server, &words).await;
    let shown = runs(&server, &["profiles", "acme"]).await;
    assert!(shown.contains("\nstate     ready\n") && shown.contains("\nmodel     m-1\n"), "{shown}");
    for text in [&set, &shown, &runs(&server, &["profiles", "--json"]).await] {
        assert!(!text.contains("sk-secret"), "{text}");
    }
    runs(&server, &["profiles", "acme", "--delete"]).await;
    assert_eq!(refused(&server, &["profiles", "acme"]).await.0, Some(1), "it was not built in");
}
