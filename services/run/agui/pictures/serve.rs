//! The bytes of a picture: for whoever has a signed URL, and for the runner of the turn that uses it.

use super::kind::PictureKind;
use super::signing::PicturePath;
use crate::RunService;
use crate::access::RunAccess;
use crate::error::Error;
use axum::extract::{Path, Query, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse as _, Response};
use kernel::{Caller, RpcError};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
pub(in crate::agui) struct Signature {
    #[serde(default)]
    expires: String,
    #[serde(default)]
    signature: String,
}

/// `GET /api/v1/agent/attachments/agent-inputs/{userId}/{name}`: an `<img>` sends no token.
pub(in crate::agui) async fn serve(
    State(run): State<Arc<RunService>>,
    Path((owner, name)): Path<(String, String)>,
    Query(given): Query<Signature>,
) -> Result<Response, RpcError> {
    let path = PicturePath::new(&owner, &name);
    let now = run.clock.now_ms();
    let path = path.filter(|path| run.front_ends.key.allows(path, &given.expires, &given.signature, now));
    let path = path.ok_or_else(|| Error::Forbidden("the signature is not valid, or has ended".to_owned()))?;
    Ok(run.picture(&path).await?)
}

/// `GET /api/v1/runs/{runId}/attachments/{attachmentId}`: the runner of a run fetches what a turn of it names.
pub(crate) async fn serve_to_runner(
    State(run): State<Arc<RunService>>,
    Path((run_id, attachment)): Path<(String, String)>,
    caller: Caller,
) -> Result<Response, RpcError> {
    let access = run.access(&caller)?;
    let found = run.visible_run(&access, &run_id).await?;
    if !matches!(access, RunAccess::Runner { .. } | RunAccess::Admin) {
        return Err(Error::Forbidden("attachments are for the runner of the run".to_owned()).into());
    }
    let not_found = || Error::NotFound("attachment".to_owned());
    let path = PicturePath::parse(&attachment).ok_or_else(not_found)?;
    if !run.store.is_picture_of_run(&attachment, &found.row.id).await.map_err(Error::Store)? {
        return Err(not_found().into());
    }
    Ok(run.picture(&path).await?)
}

impl RunService {
    async fn picture(&self, path: &PicturePath) -> Result<Response, Error> {
        let bytes = self.front_ends.pictures.read(path).await.map_err(RpcError::internal)?;
        let bytes = bytes.ok_or_else(|| Error::NotFound("attachment".to_owned()))?;
        let kind =
            PictureKind::of_name(path.name()).map_or("application/octet-stream", |kind| kind.mime_type);
        let headers = [
            (CONTENT_TYPE, kind),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (CONTENT_SECURITY_POLICY, "sandbox"),
            (CONTENT_DISPOSITION, "inline"),
            (CACHE_CONTROL, "private"),
        ];
        Ok((headers, bytes).into_response())
    }
}
