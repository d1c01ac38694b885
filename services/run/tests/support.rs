//! A world with the service, and who calls it.

use crate::{RunService, Settings, service};
use axum::http::Request;
use kernel::{Caller, Payer, RpcError, TokenCaller};
use serde_json::{Value, json};
use std::sync::Arc;
use testing::{TestAnswer, TestWorld};

pub(super) struct TestRuns {
    pub test: TestWorld,
    pub run: Arc<RunService>,
}

/// A run as a test writes it into the store.
pub(super) struct TestRun<'a> {
    pub id: &'a str,
    pub session: Option<&'a str>,
    pub profile: &'a str,
    /// Of `runner_1` for `attempt_1`, with epoch 3, until then.
    pub leased_until: Option<i64>,
    pub ended_at: Option<i64>,
}

impl TestRun<'_> {
    pub const NEW: TestRun<'static> =
        TestRun { id: "run_1", session: None, profile: "example", leased_until: None, ended_at: None };
}

impl TestRuns {
    pub async fn open() -> TestRuns {
        TestRuns::with(Settings::default()).await
    }

    pub async fn with(settings: Settings) -> TestRuns {
        let test = TestWorld::with(&[]).await;
        let run = RunService::open(&test.world, &settings).await.unwrap();
        test.world
            .add(service(run.clone(), kernel::AgentRemoval::nothing_kept("a test removes it by itself")));
        TestRuns { test, run }
    }

    pub async fn call(&self, caller: &Caller, method: &str, params: Value) -> Result<Value, RpcError> {
        self.test.call_as(caller.clone(), method, params).await
    }

    /// As the tenant hwlab.
    pub async fn ok(&self, method: &str, params: Value) -> Value {
        self.call(&hwlab(), method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The word and the status with which a call of the tenant hwlab is refused.
    pub async fn refused(&self, method: &str, params: Value) -> (String, u16) {
        self.refused_to(&hwlab(), method, params).await
    }

    pub async fn refused_to(&self, caller: &Caller, method: &str, params: Value) -> (String, u16) {
        let error = self.call(caller, method, params).await.expect_err(method);
        let word = error.data("failureKind").and_then(Value::as_str);
        // What the kernel refuses has its word from the envelope.
        let kind = if error.kind() == "invalid_params" { "schema-invalid" } else { error.kind() };
        (word.unwrap_or(kind).to_owned(), error.http_status().as_u16())
    }

    pub async fn get(&self, caller: &Caller, path: &str) -> TestAnswer {
        self.test.http("run", caller, Request::builder().uri(path)).await
    }

    /// A session of the tenant hwlab; gives its id.
    pub async fn session(&self) -> String {
        let params = json!({ "tenantId": "hwlab", "projectId": "acme/site", "backendProfile": "example" });
        let created = self.ok("session.create", params).await;
        created["session"]["sessionId"].as_str().unwrap().to_owned()
    }

    pub fn now(&self) -> i64 {
        self.test.world.clock.now_ms()
    }

    pub async fn sql(&self, text: &'static str) {
        sqlx::query(text).execute(self.run.store.db().write_alone()).await.unwrap();
    }

    /// A run, as the active one of its session where it has one.
    pub async fn insert_run(&self, run: &TestRun<'_>) {
        let (runner, attempt) = match run.leased_until {
            Some(_) => (Some("runner_1"), Some("attempt_1")),
            None => (None, None),
        };
        sqlx::query(
            "INSERT INTO run (id, payer, tenant, session_id, fixed, profile, timeout_ms, status, lease_runner, lease_attempt,
                 lease_epoch, lease_ms, lease_until, lease_released, refused_runners, last_seq, last_command, event_bytes,
                 event_rows, active, created_at, updated_at, ended_at)
             VALUES ($1, $2, 'hwlab', $3, '{}', $4, 1000, 'running', $5, $6, 3, 60000, $7, 0, '', 0, 0, 0, 0, 1, $8, $8, $9)",
        )
        .bind(run.id)
        .bind(Payer::tenant("hwlab").key())
        .bind(run.session)
        .bind(run.profile)
        .bind(runner)
        .bind(attempt)
        .bind(run.leased_until.unwrap_or_default())
        .bind(self.now())
        .bind(run.ended_at)
        .execute(self.run.store.db().write_alone())
        .await
        .unwrap();
        sqlx::query("UPDATE run_session SET active_run = $1, last_run = $1, state = 'running' WHERE id = $2")
            .bind(run.id)
            .bind(run.session)
            .execute(self.run.store.db().write_alone())
            .await
            .unwrap();
    }

    /// As the end of a command does it.
    pub async fn end_a_command(&self, session: &str) {
        let now = self.now();
        sqlx::query(
            "UPDATE run_session SET state = 'terminal', version = version + 1, updated_at = $2 WHERE id = $1",
        )
        .bind(session)
        .bind(now)
        .execute(self.run.store.db().write_alone())
        .await
        .unwrap();
    }

    /// Appends an event with a payload of this many bytes to `run_1`.
    pub async fn append(&self, seq: i64, kind: &str, bytes: usize) {
        let payload = json!({ "text": "x".repeat(bytes.saturating_sub(11)) }).to_string();
        sqlx::query(
            "INSERT INTO run_event (run_id, seq, kind, payload, created_at) VALUES ('run_1', $1, $2, $3, $4)",
        )
        .bind(seq)
        .bind(kind)
        .bind(payload)
        .bind(self.now())
        .execute(self.run.store.db().write_alone())
        .await
        .unwrap();
        let update = "UPDATE run SET last_seq = $1 WHERE id = 'run_1'";
        sqlx::query(update).bind(seq).execute(self.run.store.db().write_alone()).await.unwrap();
    }
}

fn token(kind: &'static str, subject: &str) -> Caller {
    Caller::Token(TokenCaller { kind: kind.into(), subject: subject.to_owned(), agent: None, payer: None })
}

pub(super) fn hwlab() -> Caller {
    token("tenant", "hwlab")
}

pub(super) fn unidesk() -> Caller {
    token("tenant", "unidesk")
}

pub(super) fn admin() -> Caller {
    token("admin", "admin")
}

pub(super) fn runner(run: &str, attempt: &str) -> Caller {
    token("runner", &format!("{run} {attempt}"))
}

pub(super) fn refusal(word: &str, status: u16) -> (String, u16) {
    (word.to_owned(), status)
}
