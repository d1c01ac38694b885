//! `POST /api/v1/agent/attachments`: a picture for a message.

use super::kind::PictureKind;
use super::signing::PicturePath;
use super::{MOST_BYTES, MOST_PER_HOUR};
use crate::RunService;
use crate::agui::front_end;
use crate::error::Error;
use axum::extract::State;
use axum::extract::multipart::{Multipart, MultipartRejection};
use axum::http::StatusCode;
use axum::response::Response;
use kernel::http::json_text;
use kernel::{Caller, RpcError};
use proto_schemas::requests::agui::SignedAttachment;
use std::sync::Arc;

const HOUR_MS: i64 = 3_600_000;

pub(in crate::agui) async fn upload(
    State(run): State<Arc<RunService>>,
    caller: Caller,
    form: Result<Multipart, MultipartRejection>,
) -> Result<Response, RpcError> {
    let not_a_form = || Error::RunInput("the body must be multipart/form-data with a file".to_owned());
    let mut form = form.map_err(|_| not_a_form())?;
    let mut file = None;
    while let Some(mut field) = form.next_field().await.map_err(|_| not_a_form())? {
        if field.name() != Some("file") || file.is_some() {
            continue;
        }
        let declared = field.content_type().map(str::to_owned);
        let mut bytes = Vec::new();
        while let Some(piece) = field.chunk().await.map_err(|_| not_a_form())? {
            if bytes.len() + piece.len() > MOST_BYTES {
                return Err(Error::TooLarge(format!("file must have at most {MOST_BYTES} bytes")).into());
            }
            bytes.extend_from_slice(&piece);
        }
        file = Some((declared, bytes));
    }
    let (declared, bytes) = file.ok_or_else(|| Error::RunInput("file is required".to_owned()))?;
    let signed = run.keep_picture(&caller, declared.as_deref(), bytes).await?;
    Ok(json_text(StatusCode::OK, serde_json::to_string(&signed).map_err(RpcError::internal)?))
}

impl RunService {
    async fn keep_picture(
        &self,
        caller: &Caller,
        declared: Option<&str>,
        bytes: Vec<u8>,
    ) -> Result<SignedAttachment, Error> {
        let agent = front_end(caller)?;
        let kind = PictureKind::of_bytes(&bytes).ok_or_else(|| {
            Error::RunInput(
                "file must be an image of type image/png, image/jpeg, image/gif or image/webp".to_owned(),
            )
        })?;
        if let Some(declared) = declared.filter(|declared| !kind.is_called(declared)) {
            let sentence = format!("file is {}, and declared to be {declared}", kind.mime_type);
            return Err(Error::RunInput(sentence));
        }
        let (aid, now) = (agent.aid.to_string(), self.clock.now_ms());
        let held = self.store.pictures_since(&aid, now - HOUR_MS).await?;
        if held >= MOST_PER_HOUR {
            return Err(Error::Limit {
                sentence: format!("an agent can upload at most {MOST_PER_HOUR} attachments per hour"),
                scope: "agui.attachments",
                limit: MOST_PER_HOUR,
                held,
            });
        }
        let name = format!("{}.{}", self.ids.time_ordered(now), kind.extension);
        let path = PicturePath::new(&aid, &name)
            .ok_or_else(|| RpcError::internal(anyhow::anyhow!("{aid} is not part of a path")))?;
        let size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        // The row first: it is counted, and a file without a row would stay for ever.
        self.store.insert_picture(agent, &path.to_string(), kind.mime_type, size, now).await?;
        if let Err(error) = self.front_ends.pictures.write(&path, bytes).await {
            self.store.remove_picture(&path.to_string()).await?;
            return Err(RpcError::internal(error).into());
        }
        Ok(self.front_ends.key.signed(&path.to_string(), now))
    }
}
