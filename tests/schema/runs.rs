//! What examples need of runs: a run with a turn, a question that waits, a runner with a lease, a session, a token.

use std::collections::HashMap;

use proto_schemas::Request;
use proto_schemas::requests::run::{
    ApprovalMode, Approvals, CommandCreate, CommandType, Create, CreatedCommand, CreatedRun, LauncherKind,
    PolicyDraft, RunEventType, RunSessionRef, RunnerJobCreate, TokenCreate,
};
use proto_schemas::requests::runner::{
    Acknowledge, AppendEvents, Claim, ClaimedRun, Register, RegisteredRunner,
};
use proto_schemas::requests::{profile, session};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::agent::{ConnectedAgent, TestIdentity, random_hex};

/// The tenant of the examples, whose agents are all of this domain.
const TENANT: &str = "demo";
const PROJECT: &str = "acme/site";
/// The profile that needs no credential.
const PROFILE: &str = "example";

type Values = HashMap<String, String>;

/// The runs and the session of the caller that an example needs.
pub async fn values(server: &TestServer, caller: &TestIdentity, example: &str) -> Values {
    let mut values = Values::new();
    let wanted = |name: &str| is_wanted(example, name);
    let of_caller =
        ["own_run", "own_command", "own_runner_job", "own_run_session", "approval_run", "open_approval"];
    if wanted("fresh_thread") {
        values.insert("fresh_thread".to_owned(), fresh_thread());
    }
    let of_front_ends = ["own_thread", "own_picture"];
    if !of_caller.into_iter().chain(of_front_ends).any(wanted) {
        return values;
    }
    // In a slot of its own: what another example prepares for the same caller meanwhile does not replace this session.
    let slot = format!("runs-{}", random_hex(6));
    let agent = server.connect(caller, |hello| hello["client"]["slot_id"] = json!(slot)).await;
    if wanted("own_thread") {
        let thread = fresh_thread();
        let input = json!({
            "threadId": thread, "runId": "run-001", "forwardedProps": { "runtime_mode": "chat" },
            "messages": [{ "id": "msg-001", "role": "user", "content": "hello" }],
        });
        agent.call("agui.run", &json!({ "input": input })).await;
        values.insert("own_thread".to_owned(), thread);
    }
    if wanted("own_picture") {
        values.insert("own_picture".to_owned(), own_picture(server, caller).await);
    }
    if wanted("own_run_session") {
        values.insert("own_run_session".to_owned(), own_session(&agent).await);
    }
    if ["own_run", "own_command", "own_runner_job"].into_iter().any(wanted) {
        let run = own_run(&agent).await;
        if wanted("own_command") || wanted("own_runner_job") {
            let command = own_turn(&agent, &run, "hello").await;
            if wanted("own_runner_job") {
                values.insert("own_runner_job".to_owned(), own_job(&agent, &run, &command).await);
            }
            values.insert("own_command".to_owned(), command);
        }
        values.insert("own_run".to_owned(), run);
    }
    if wanted("approval_run") || wanted("open_approval") {
        let run = own_run(&agent).await;
        let command = own_turn(&agent, &run, "may I?").await;
        ExampleRunner::begin(server, &run, &command).await.ask(server, &command).await;
        let open = call(&agent, &Approvals { run_id: run.clone() }).await;
        let asked = open.approvals.first().expect("the question is open");
        values.insert("open_approval".to_owned(), asked.approval_id.clone());
        values.insert("approval_run".to_owned(), run);
    }
    values
}

/// A UUID that no conversation has.
fn fresh_thread() -> String {
    let hex = random_hex(16);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// The path of a picture that the caller has uploaded.
async fn own_picture(server: &TestServer, caller: &TestIdentity) -> String {
    let body = "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nGIF89a\r\n--b--\r\n";
    let request = server.http("POST", "/api/v1/agent/attachments");
    let request = request.header("Authorization", &format!("Bearer {}", server.login(caller).await.access));
    let request =
        request.header("Content-Type", "multipart/form-data; boundary=b").body(body.as_bytes().to_vec());
    let answer = request.send().await;
    answer.json()["path"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

/// What only the operator can prepare: a token of the tenant, a credential, a validation, and a runner with the lease of a run.
pub async fn values_of_operator(server: &TestServer, example: &str) -> Values {
    let mut values = Values::new();
    let wanted = |name: &str| is_wanted(example, name);
    if wanted("tenant_token") || wanted("tenant_token_prefix") {
        let made =
            by_operator(server, &TokenCreate { tenant_id: Some(TENANT.to_owned()), admin: None }).await;
        values.insert("tenant_token".to_owned(), made.token);
        values.insert("tenant_token_prefix".to_owned(), made.prefix);
    }
    if wanted("configured_profile") {
        let name = "deepseek".to_owned();
        let credential = profile::SetCredential {
            profile: name.clone(),
            api_key: Some("an-example-of-a-key".to_owned()),
            ..Default::default()
        };
        by_operator(server, &credential).await;
        values.insert("configured_profile".to_owned(), name);
    }
    if wanted("validation") {
        let begun = by_operator(server, &profile::Validate { profile: PROFILE.to_owned() }).await;
        values.insert("validation".to_owned(), begun.validation_id);
    }
    if example.contains("{{runner_") || example.contains("{{number:runner_epoch}}") {
        let session_ref = match wanted("runner_session") {
            true => Some(RunSessionRef {
                session_id: by_operator(server, &new_session()).await.session.session_id,
            }),
            false => None,
        };
        let CreatedRun { run, .. } =
            by_operator(server, &Create { session_ref: session_ref.clone(), ..new_run() }).await;
        let CreatedCommand { command, .. } = by_operator(server, &turn(&run.run_id, "hello")).await;
        let runner = ExampleRunner::begin(server, &run.run_id, &command.command_id).await;
        values.extend(session_ref.map(|session| ("runner_session".to_owned(), session.session_id)));
        values.extend(
            [
                ("runner_run", run.run_id),
                ("runner_command", command.command_id),
                ("runner_id", runner.runner_id),
                ("runner_attempt", runner.attempt_id),
                ("runner_epoch", runner.epoch.to_string()),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
    }
    values
}

fn is_wanted(example: &str, name: &str) -> bool {
    example.contains(&format!("{{{{{name}}}}}"))
}

async fn own_run(agent: &ConnectedAgent) -> String {
    call(agent, &new_run()).await.run.run_id
}

async fn own_turn(agent: &ConnectedAgent, run: &str, prompt: &str) -> String {
    call(agent, &turn(run, prompt)).await.command.command_id
}

async fn own_session(agent: &ConnectedAgent) -> String {
    call(agent, &new_session()).await.session.session_id
}

async fn own_job(agent: &ConnectedAgent, run: &str, command: &str) -> String {
    let start = RunnerJobCreate {
        run_id: run.to_owned(),
        command_id: command.to_owned(),
        launcher: Some(LauncherKind::External),
        ..Default::default()
    };
    call(agent, &start).await.runner_job.runner_job_id
}

/// A runner that works for the operator, whom nothing is asked that its token would say.
struct ExampleRunner {
    run_id: String,
    runner_id: String,
    attempt_id: String,
    epoch: i64,
}

impl ExampleRunner {
    /// It has the lease of the run, and has acknowledged the command.
    async fn begin(server: &TestServer, run: &str, command: &str) -> ExampleRunner {
        let attempt_id = format!("attempt_{}", random_hex(16));
        let register = Register {
            run_id: Some(run.to_owned()),
            attempt_id: Some(attempt_id.clone()),
            backend_profile: PROFILE.to_owned(),
            ..Default::default()
        };
        let RegisteredRunner { runner_id, .. } = by_operator(server, &register).await;
        let claim = Claim {
            run_id: run.to_owned(),
            runner_id: runner_id.clone(),
            attempt_id: attempt_id.clone(),
            lease_ms: None,
        };
        let ClaimedRun { lease, .. } = by_operator(server, &claim).await;
        let epoch = lease.epoch;
        let taken = Acknowledge { command_id: command.to_owned(), runner_id: runner_id.clone(), epoch };
        by_operator(server, &taken).await;
        ExampleRunner { run_id: run.to_owned(), runner_id, attempt_id, epoch }
    }

    /// Its back end has a question.
    async fn ask(&self, server: &TestServer, command: &str) {
        let question = json!({
            "approvalId": "approval-1", "reason": "command", "message": "May I?", "options": ["accept", "decline"],
        });
        let event = AppendEvents {
            run_id: self.run_id.clone(),
            runner_id: self.runner_id.clone(),
            epoch: self.epoch,
            client_event_id: Some("question-1".to_owned()),
            kind: Some(RunEventType::ApprovalRequest),
            command_id: Some(command.to_owned()),
            payload: Some(raw(&question)),
            ..Default::default()
        };
        by_operator(server, &event).await;
    }
}

fn new_run() -> Create {
    Create {
        tenant_id: TENANT.to_owned(),
        project_id: PROJECT.to_owned(),
        workspace_ref: raw(&json!({})),
        provider_id: "local".to_owned(),
        backend_profile: PROFILE.to_owned(),
        execution_policy: Some(PolicyDraft { approval: Some(ApprovalMode::OnRequest), ..Default::default() }),
        trace_sink: raw(&Value::Null),
        session_ref: None,
        resource_bundle_ref: None,
        idempotency_key: None,
    }
}

fn turn(run: &str, prompt: &str) -> CommandCreate {
    CommandCreate {
        run_id: run.to_owned(),
        kind: CommandType::Turn,
        payload: raw(&json!({ "prompt": prompt })),
        idempotency_key: None,
    }
}

fn new_session() -> session::Create {
    session::Create {
        tenant_id: TENANT.to_owned(),
        project_id: PROJECT.to_owned(),
        backend_profile: PROFILE.to_owned(),
        ..Default::default()
    }
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("a value is JSON")
}

async fn call<R: Request>(agent: &ConnectedAgent, request: &R) -> R::Result {
    let params = serde_json::to_value(request).expect("a request is JSON");
    read(&agent.call(R::METHOD, &params).await)
}

async fn by_operator<R: Request>(server: &TestServer, request: &R) -> R::Result {
    let params = serde_json::to_value(request).expect("a request is JSON");
    let answer = server.by_operator(R::METHOD, &params).await;
    read(&answer.unwrap_or_else(|error| panic!("{}: {error}", R::METHOD)))
}

/// From its text: what is passed on unread cannot be read from a value.
fn read<T: serde::de::DeserializeOwned>(answer: &Value) -> T {
    serde_json::from_str(&answer.to_string()).unwrap_or_else(|error| panic!("{error}: {answer}"))
}
