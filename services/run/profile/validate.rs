//! `profile.validate`: try whether a profile works, with a run of its own.

use crate::RunService;
use crate::error::Error;
use crate::ids::new_id;
use crate::known_profiles::check_slug;
use crate::store::ValidationRow;
use kernel::{Caller, RpcError};
use proto_schemas::requests::profile::{BegunValidation, Validate};
use proto_schemas::requests::run::{
    CommandCreate, CommandType, Create, LauncherKind, PolicyDraft, RunnerJobCreate,
};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use std::sync::Arc;

const PROJECT: &str = "profile-validation";
const PROVIDER: &str = "local";
const PROMPT: &str = "Answer with the word ready.";
const TIMEOUT_MS: i64 = 120_000;
/// How long the runner waits for another turn, which does not come.
const IDLE_MS: i64 = 1000;

impl RunService {
    pub(crate) async fn profile_validate(
        self: Arc<Self>,
        _: Caller,
        Validate { profile }: Validate,
    ) -> Result<BegunValidation, Error> {
        check_slug(&profile)?;
        // Refused before there is a run: a profile that does not exist, and one that cannot be used.
        self.profile(&profile).await?;
        self.check_credential(&profile).await?;
        if self.launcher.kind() != LauncherKind::Local || !self.launcher.is_ready() {
            let sentence = "a validation needs runners that the server starts: set run.launcher to local, and \
                            run.manager_url where the gateway is another process";
            return Err(Error::Invalid(sentence.to_owned()));
        }
        // What has begun is done also if the caller leaves: a run that is not remembered as a validation would stay open.
        let service = self.clone();
        let begun = self.tracker.spawn(async move { service.begin_validation(profile).await });
        let row = begun.await.map_err(RpcError::internal)??;
        Ok(BegunValidation {
            status: row.status(),
            validation_id: row.id,
            profile: row.profile,
            run_id: row.run_id,
            command_id: row.command_id,
            runner_job_id: row.job_id,
        })
    }

    /// The run, and then everything of it. Where that fails, the run is cancelled; where this process ends before, later.
    async fn begin_validation(self: Arc<Self>, profile: String) -> Result<ValidationRow, Error> {
        let id = new_id(&self.ids, "val", self.clock.now_ms());
        let run = self.clone().create(Caller::Operator, self.run_of_validation(&profile, &id)?).await?.run;
        match self.start_validation(id, profile, &run.run_id).await {
            Ok(row) => {
                self.follow_validation(row.clone());
                Ok(row)
            }
            Err(error) => {
                if let Err(cause) = self.end_run_of_validation(&run.run_id).await {
                    tracing::warn!("{} of a validation could not be cancelled: {cause}", run.run_id);
                }
                Err(error)
            }
        }
    }

    pub(crate) fn run_of_validation(&self, profile: &str, id: &str) -> Result<Create, Error> {
        let tenant = self.settings.tenant_of_validations();
        let (name, tenant) = tenant
            .ok_or_else(|| Error::Invalid("a validation needs a tenant: set run.tenants.NAME".to_owned()))?;
        let policy =
            PolicyDraft { timeout_ms: Some(TIMEOUT_MS.min(tenant.timeout_ms)), ..PolicyDraft::default() };
        Ok(Create {
            tenant_id: name.clone(),
            project_id: PROJECT.to_owned(),
            workspace_ref: raw(&json!({}))?,
            provider_id: PROVIDER.to_owned(),
            backend_profile: profile.to_owned(),
            execution_policy: Some(policy),
            trace_sink: raw(&Value::Null)?,
            session_ref: None,
            resource_bundle_ref: None,
            // By which it is found although the validation was never stored.
            idempotency_key: Some(format!("validation {id}")),
        })
    }

    /// Its turn and its runner, and what is remembered of them.
    async fn start_validation(
        self: &Arc<Self>,
        id: String,
        profile: String,
        run_id: &str,
    ) -> Result<ValidationRow, Error> {
        let turn = CommandCreate {
            run_id: run_id.to_owned(),
            kind: CommandType::Turn,
            payload: raw(&json!({ "prompt": PROMPT }))?,
            idempotency_key: None,
        };
        let command = self.clone().command_create(Caller::Operator, turn).await?.command;
        let job = RunnerJobCreate {
            run_id: run_id.to_owned(),
            command_id: command.command_id.clone(),
            launcher: Some(LauncherKind::Local),
            idle_timeout_ms: Some(IDLE_MS),
            ..RunnerJobCreate::default()
        };
        let job = self.clone().runner_job_create(Caller::Operator, job).await?.runner_job;

        let now = self.clock.now_ms();
        let row = ValidationRow {
            id,
            profile,
            run_id: run_id.to_owned(),
            command_id: command.command_id,
            job_id: job.runner_job_id,
            failed: 0,
            failure_kind: None,
            created_at: now,
            ended_at: None,
        };
        let mut tx = self.store.db().begin().await?;
        self.store.insert_validation(&mut tx, &row).await?;
        self.store.db().commit(tx).await?;
        Ok(row)
    }
}

fn raw(value: &Value) -> Result<Box<RawValue>, Error> {
    Ok(to_raw_value(value).map_err(RpcError::internal)?)
}
