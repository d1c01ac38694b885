//! Fetches the images that a turn names, before it begins.

mod files;

pub(super) use files::TurnFiles;

use crate::back_end::attachment::TurnAttachment;
use crate::manager::{ATTACHMENT_BYTES, CallRetry, ManagerApi, ManagerError};
use hyper::body::Bytes;
use std::path::PathBuf;
use std::pin::Pin;

/// The images of one turn, on their way. Who drops it ends it, and removes what has come.
pub(super) type AttachmentFetch = Pin<Box<dyn Future<Output = Result<TurnFiles, String>>>>;

/// The one that fetches. Each turn has a connection of its own, because it may be told to end in the middle of an answer.
pub(super) struct AttachmentFetcher {
    pub api: ManagerApi,
    pub run_id: String,
    pub retry: CallRetry,
    /// Where the back end sees files.
    pub folder: PathBuf,
}

impl AttachmentFetcher {
    /// One image after the other, so that one at most is in memory. A manager that is away is waited for: the time of the turn is limited by
    /// others.
    pub fn fetch(&self, command_id: String, attachments: Vec<TurnAttachment>) -> AttachmentFetch {
        let (mut api, retry) = (self.api.another(), self.retry);
        let (run_id, folder) = (self.run_id.clone(), self.folder.clone());
        Box::pin(async move {
            let files = TurnFiles::new(&folder, &command_id);
            let mut files = files.map_err(|error| {
                format!("the attachments cannot be stored in {}: {error}", folder.display())
            })?;
            for (number, attachment) in (1..).zip(attachments) {
                let api = &mut api;
                let bytes = retry.call(async || api.attachment(&run_id, &attachment.id).await).await;
                let bytes =
                    checked(bytes, &attachment).map_err(|why| format!("attachment {number} {why}"))?;
                let written = files.write(number, attachment.kind, &bytes);
                written.map_err(|error| format!("attachment {number} cannot be stored: {error}"))?;
            }
            Ok(files)
        })
    }
}

/// The image, or why there is none.
fn checked(fetched: Result<Bytes, ManagerError>, attachment: &TurnAttachment) -> Result<Bytes, String> {
    match fetched {
        Ok(bytes) if attachment.kind.begins(&bytes) => Ok(bytes),
        Ok(_) => Err(format!("is not what it is said to be: {}", attachment.kind.mime_type())),
        Err(ManagerError::TooLarge { .. }) => Err(format!("has more than {} MiB", ATTACHMENT_BYTES >> 20)),
        Err(error) => Err(format!("cannot be fetched: {error}")),
    }
}
