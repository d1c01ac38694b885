//! The run of the manager in which the turns of a conversation are.

use crate::RunService;
use crate::error::Error;
use crate::ids::new_id;
use crate::model::call::{CallAccess, NewCommand, NewRun, NewThreadRun, RunAnswer, RunOperation};
use crate::model::policy::check_run;
use crate::model::thread::{NewThreadSession, ThreadRow};
use crate::runs::unexpected;
use kernel::{CallingAgent, Payer, RpcError};
use proto_schemas::requests::run::{ApprovalMode, Create, PolicyDraft, RunSessionRef};
use serde_json::json;
use serde_json::value::to_raw_value;

const PROVIDER: &str = "local";
const DAY_MS: i64 = 86_400_000;
/// The longest time that a session may have.
const SESSION_DAYS: i64 = 365;

/// Where a turn goes.
pub(super) enum ThreadRunPlan {
    /// To the open run of the conversation.
    Goes(String),
    /// To the next one, when this one has ended.
    Ends(String),
    /// To a new one: the first of a new conversation, or the next of this one.
    Begins(Option<ThreadRow>),
}

impl RunService {
    pub(super) async fn may_begin_thread(&self, agent: &CallingAgent) -> Result<(), Error> {
        let limit = i64::from(self.settings.agui.threads);
        let held = self.store.count_threads(agent.aid.as_str(), limit).await?;
        match held < limit {
            true => Ok(()),
            false => Err(Error::Limit {
                sentence: format!("an agent can have at most {limit} threads"),
                scope: "agui.threads",
                limit,
                held,
            }),
        }
    }

    /// A run of the manager with its first turn, stored with the conversation. None: somebody else has begun it.
    pub(super) async fn begin_run(
        &self,
        thread_id: &str,
        before: Option<ThreadRow>,
        command: NewCommand,
    ) -> Result<Option<(String, String)>, Error> {
        let tenant = self.settings.tenant_of_front_ends().cloned();
        let tenant =
            tenant.ok_or_else(|| Error::Denied("this server has no tenant for front ends".to_owned()))?;
        let now = self.clock.now_ms();
        let aid = command.turn.as_ref().map(|turn| turn.part.aid.clone()).unwrap_or_default();
        let kept_session = match &before {
            Some(thread) => self.store.session(&thread.session_id, "").await?,
            None => None,
        };
        let profile = &self.settings.agui.profile;
        let goes_on = kept_session.filter(|session| {
            session.storage_kind == "pvc" && session.profile == *profile && session.tenant == tenant
        });
        let session = match &goes_on {
            Some(_) => None,
            None => Some(self.new_session(&tenant, now).await?),
        };
        let session_id = goes_on.map(|session| session.id);
        let session_id = session_id.or(session.as_ref().map(|new| new.id.clone())).ok_or_else(unexpected)?;
        let thread = match before {
            Some(thread) => ThreadRow {
                base: self.store.end_of_frames(thread_id).await?.unwrap_or(thread.base),
                generation: thread.generation + 1,
                session_id: session_id.clone(),
                ..thread
            },
            None => ThreadRow::new(thread_id, aid, session_id.clone(), now),
        };
        let key = self.key_of_run(&tenant, thread_id, thread.generation).await?;
        let new_folder = session.as_ref().map(|new| new.id.clone());
        let id = new_id(&self.ids, "run", now);
        let new = self.new_run(tenant, (session_id, key), NewThreadRun { thread, session, command })?;
        let answer = self.submit(&id, CallAccess::System, RunOperation::Create(Box::new(new))).await;
        if let (Some(folder), false) = (new_folder, matches!(answer, Ok(RunAnswer::Command { .. })))
            && let Err(error) = self.storage.remove(&folder).await
        {
            tracing::warn!(session = folder, "the folder of a session that was not stored remains: {error}");
        }
        match answer? {
            RunAnswer::Command { command_id, .. } => {
                self.metrics.created.inc();
                Ok(Some((id, command_id)))
            }
            RunAnswer::Run { created: false, .. } => Ok(None),
            _ => Err(unexpected()),
        }
    }

    /// Of those who begin a run of a conversation at once, one does: they have the same key. A conversation that was removed may begin again.
    async fn key_of_run(&self, tenant: &str, thread_id: &str, generation: i64) -> Result<String, Error> {
        let mut key = format!("agui {thread_id} {generation}");
        while let Some((run_id, _)) = self.store.run_of_key(tenant, &key).await? {
            let run = self.store.run(&run_id).await?;
            if run.is_some_and(|run| run.row.ended_at.is_none() && run.row.cancel_at.is_none()) {
                break;
            }
            key = format!("agui {thread_id} {generation} {run_id}");
        }
        Ok(key)
    }

    /// The folder first: one without a session is empty and does no harm.
    async fn new_session(&self, tenant: &str, now: i64) -> Result<NewThreadSession, Error> {
        let agui = &self.settings.agui;
        self.check_credential(&agui.profile).await?;
        let (limit, held) = (i64::from(self.settings.sessions), self.store.sessions_held(tenant).await?);
        if held >= limit {
            return Err(Error::Limit {
                sentence: format!("a tenant can have at most {limit} sessions with storage"),
                scope: "run.sessions",
                limit,
                held,
            });
        }
        let id = new_id(&self.ids, "sess", now);
        self.storage.create(&id).await.map_err(RpcError::internal)?;
        Ok(NewThreadSession {
            id,
            payer: Payer::tenant(tenant).key().to_owned(),
            tenant: tenant.to_owned(),
            project: agui.project.clone(),
            profile: agui.profile.clone(),
            now,
            expires_at: now + SESSION_DAYS * DAY_MS,
        })
    }

    fn new_run(
        &self,
        tenant: String,
        (session_id, key): (String, String),
        thread: NewThreadRun,
    ) -> Result<NewRun, Error> {
        let agui = &self.settings.agui;
        let raw = |value| to_raw_value(&value).map_err(RpcError::internal);
        let workspace = match &agui.workspace {
            Some(workspace) => json!({ "root": workspace.root, "path": workspace.path }),
            None => json!({}),
        };
        let draft = Create {
            tenant_id: tenant.clone(),
            project_id: agui.project.clone(),
            workspace_ref: raw(workspace)?,
            provider_id: PROVIDER.to_owned(),
            backend_profile: agui.profile.clone(),
            execution_policy: Some(PolicyDraft {
                sandbox: agui.policy.sandbox,
                approval: Some(agui.policy.approval.unwrap_or(ApprovalMode::OnRequest)),
                timeout_ms: agui.policy.timeout_ms,
                network: agui.policy.network,
                secret_scope: None,
            }),
            trace_sink: raw(json!(null))?,
            session_ref: Some(RunSessionRef { session_id: session_id.clone() }),
            resource_bundle_ref: None,
            idempotency_key: None,
        };
        // Whether the profile has a credential was asked before the session was made.
        let fixed = check_run(&self.settings, &draft, |_| true)?;
        Ok(NewRun {
            payer: Payer::tenant(&tenant),
            profile: fixed.backend_profile.clone(),
            session: Some(session_id),
            timeout_ms: fixed.execution_policy.timeout_ms,
            fixed: serde_json::to_string(&fixed).map_err(RpcError::internal)?,
            tenant,
            request_hash: Some(key.clone()),
            key: Some(key),
            thread: Some(Box::new(thread)),
        })
    }
}

impl ThreadRow {
    fn new(id: &str, aid: String, session_id: String, now: i64) -> ThreadRow {
        ThreadRow {
            id: id.to_owned(),
            aid,
            session_id,
            run_id: String::new(),
            generation: 1,
            base: 0,
            last_message: 0,
            last_position: 0,
            last_item: String::new(),
            event_bytes: 0,
            event_rows: 0,
            created_at: now,
            updated_at: now,
        }
    }
}
