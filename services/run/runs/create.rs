//! `run.create`: create a run.

use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use crate::ids::new_id;
use crate::model::call::{NewRun, RunAnswer, RunOperation};
use crate::model::fixed::RunFixed;
use crate::model::policy::{check_provider_id, check_run};
use crate::runs::printable;
use kernel::{Caller, CpuOwner, Payer, RpcError};
use proto_schemas::requests::run::{Create, CreatedRun};
use std::path::{Component, Path};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn create(self: Arc<Self>, caller: Caller, params: Create) -> Result<CreatedRun, Error> {
        let access = self.access(&caller)?;
        printable("projectId", &params.project_id)?;
        check_provider_id(&params.provider_id)?;
        printable("providerId", &params.provider_id)?;
        access.may_create_for(&params.tenant_id, &self.settings)?;
        let key = params.idempotency_key.clone();
        let hash = match &key {
            Some(key) => {
                printable("idempotencyKey", key)?;
                Some(self.digest(&caller, &Create { idempotency_key: None, ..params.clone() }).await?)
            }
            None => None,
        };
        if let (Some(key), Some(hash)) = (&key, &hash)
            && let Some(run_id) = self.created_before(&params.tenant_id, key, hash).await?
        {
            return self.created_run(&access, &run_id, false).await;
        }
        let configured = self.secrets.list().await?;
        let has_secret = |profile: &str| configured.iter().any(|known| known == profile);
        let fixed = check_run(&self.settings, &params, has_secret)?;
        self.check_workspace(&fixed).await?;

        let new = NewRun {
            payer: Payer::tenant(&params.tenant_id),
            profile: fixed.backend_profile.clone(),
            session: fixed.session_ref.as_ref().map(|session| session.session_id.clone()),
            timeout_ms: fixed.execution_policy.timeout_ms,
            fixed: serde_json::to_string(&fixed).map_err(RpcError::internal)?,
            tenant: params.tenant_id,
            key,
            request_hash: hash,
            thread: None,
        };
        let id = new_id(&self.ids, "run", self.clock.now_ms());
        let answer = self.change(&access, &id, RunOperation::Create(Box::new(new))).await?;
        let RunAnswer::Run { run_id, created } = answer else { return Err(unexpected()) };
        if created {
            self.metrics.created.inc();
        }
        self.created_run(&access, &run_id, created).await
    }

    /// The run that an earlier call with this key has created. What is checked of a new run need not hold any more: the run is there. Of two
    /// calls at once neither sees the other here, and the commit decides.
    async fn created_before(&self, tenant: &str, key: &str, hash: &str) -> Result<Option<String>, Error> {
        match self.store.run_of_key(tenant, key).await? {
            Some((existing, known)) if known != hash => {
                Err(Error::Idempotency { member: "existingRunId", existing })
            }
            found => Ok(found.map(|(existing, _)| existing)),
        }
    }

    async fn created_run(
        &self,
        access: &RunAccess,
        run_id: &str,
        created: bool,
    ) -> Result<CreatedRun, Error> {
        let run = self.visible_run(access, run_id).await?;
        Ok(CreatedRun { run: self.run_record(&run)?, created })
    }

    /// The folder that a workspace names has to exist below its root, also where links lead.
    async fn check_workspace(&self, fixed: &RunFixed) -> Result<(), Error> {
        let Some((root, path)) = fixed.folder() else { return Ok(()) };
        let Some(workspace) = self.settings.workspaces.get(&root) else { return Ok(()) };
        let (root_path, wanted) = (workspace.path.clone(), workspace.path.join(&path));
        let inside = tokio::task::spawn_blocking(move || is_inside(&root_path, &wanted));
        match inside.await.map_err(RpcError::internal)? {
            true => Ok(()),
            false => {
                Err(Error::Invalid(format!("workspaceRef.path {path:?} does not lead to a folder of {root}")))
            }
        }
    }

    /// The hash of a request: what is the same in JSON has the same hash.
    pub(crate) async fn digest<T>(&self, caller: &Caller, request: &T) -> Result<String, Error>
    where
        T: serde::Serialize,
    {
        // Compared with what it costs to read a request of this size, computing the rest here is nothing.
        const SMALL: usize = 16 << 10;
        let text = serde_json::to_string(request).map_err(RpcError::internal)?;
        if text.len() <= SMALL {
            return digest_of(&text);
        }
        self.cpu.run(CpuOwner::of(caller), move || digest_of(&text)).await?
    }
}

fn digest_of(text: &str) -> Result<String, Error> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(RpcError::internal)?;
    Ok(manifest::digest(&value))
}

fn is_inside(root: &Path, wanted: &Path) -> bool {
    let (Ok(root), Ok(found)) = (root.canonicalize(), wanted.canonicalize()) else { return false };
    let escapes = found.components().any(|part| part == Component::ParentDir);
    !escapes && found.starts_with(&root) && found.is_dir()
}

/// An answer of another kind than its operation gives.
pub(crate) fn unexpected() -> Error {
    Error::Other(RpcError::internal(anyhow::anyhow!("an operation was answered with something else")))
}
