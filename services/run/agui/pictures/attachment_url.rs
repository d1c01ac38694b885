//! `agui.attachment_url`: sign the URL of a picture again.

use super::BUCKET;
use super::signing::PicturePath;
use crate::RunService;
use crate::agui::front_end;
use crate::error::Error;
use kernel::Caller;
use proto_schemas::requests::agui::{AttachmentUrl, SignedAttachment};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn agui_attachment_url(
        self: Arc<Self>,
        caller: Caller,
        params: AttachmentUrl,
    ) -> Result<SignedAttachment, Error> {
        let aid = front_end(&caller)?.aid.to_string();
        let path =
            PicturePath::parse(&params.path).filter(|path| params.bucket == BUCKET && path.owner() == aid);
        let path = path.ok_or_else(|| Error::NotFound("attachment".to_owned()))?.to_string();
        match self.store.has_pictures(&aid, std::slice::from_ref(&path)).await? {
            true => Ok(self.front_ends.key.signed(&path, self.clock.now_ms())),
            false => Err(Error::NotFound("attachment".to_owned())),
        }
    }
}
