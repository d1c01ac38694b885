//! Pictures of messages: uploaded once, kept as files of the service, and shown by URLs that are signed for a while.

mod attachment_url;
mod folder;
mod kind;
mod serve;
mod signing;
mod upload;

pub(crate) use folder::PictureFolder;
pub(super) use serve::serve;
pub(crate) use serve::serve_to_runner;
pub(super) use signing::{PictureKey, PicturePath};
pub(super) use upload::upload;

use kind::PictureKind;

/// The media type of a picture that is stored.
pub(super) fn mime_type_of(path: &str) -> &'static str {
    PictureKind::of_name(path).map_or("", |kind| kind.mime_type)
}

/// What the folder is called in URLs.
pub(super) const BUCKET: &str = "agent-inputs";
/// The largest picture.
pub(super) const MOST_BYTES: usize = 10 << 20;
/// Uploads of an agent within an hour.
pub(super) const MOST_PER_HOUR: i64 = 100;
