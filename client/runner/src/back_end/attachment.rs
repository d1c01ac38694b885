//! The images that a command names. Whoever may submit commands writes them, so nothing of them is taken as it is.

use serde::Deserialize;

/// What a turn may have.
const MOST_ATTACHMENTS: usize = 3;
/// No manager has longer ids.
const LONGEST_ID: usize = 512;

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageKind {
    Png,
    Jpeg,
    Gif,
    Webp,
}

impl ImageKind {
    fn of_mime_type(mime_type: &str) -> Option<ImageKind> {
        let kinds = [ImageKind::Png, ImageKind::Jpeg, ImageKind::Gif, ImageKind::Webp];
        kinds.into_iter().find(|kind| kind.mime_type() == mime_type)
    }

    pub fn mime_type(self) -> &'static str {
        match self {
            ImageKind::Png => "image/png",
            ImageKind::Jpeg => "image/jpeg",
            ImageKind::Gif => "image/gif",
            ImageKind::Webp => "image/webp",
        }
    }

    pub fn extension(self) -> &'static str {
        match self {
            ImageKind::Png => "png",
            ImageKind::Jpeg => "jpg",
            ImageKind::Gif => "gif",
            ImageKind::Webp => "webp",
        }
    }

    /// Whether a file begins as one of this kind does.
    pub fn begins(self, bytes: &[u8]) -> bool {
        match self {
            ImageKind::Png => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
            ImageKind::Jpeg => bytes.starts_with(b"\xff\xd8\xff"),
            ImageKind::Gif => bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a"),
            ImageKind::Webp => bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
        }
    }
}

/// An image that the manager has. Its id is only ever sent to the manager: it is never a part of a path here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnAttachment {
    pub id: String,
    pub kind: ImageKind,
}

/// An attachment as a payload names it. Whatever else it has is for others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NamedAttachment {
    attachment_id: String,
    mime_type: String,
}

impl NamedAttachment {
    /// All attachments of a turn, or why one of them is none.
    pub fn all(named: Vec<NamedAttachment>) -> Result<Vec<TurnAttachment>, String> {
        if named.len() > MOST_ATTACHMENTS {
            return Err(format!("a turn has at most {MOST_ATTACHMENTS} attachments, not {}", named.len()));
        }
        let numbered = (1..).zip(named);
        numbered.map(|(number, attachment)| attachment.checked(number)).collect()
    }

    fn checked(self, number: usize) -> Result<TurnAttachment, String> {
        if !is_id(&self.attachment_id) {
            return Err(format!("attachment {number} has no valid id, such as OWNER/NAME.png"));
        }
        let kind = ImageKind::of_mime_type(&self.mime_type);
        let kind = kind.ok_or_else(|| {
            format!("attachment {number} is not an image that is accepted: image/png, image/jpeg, image/gif or image/webp")
        })?;
        Ok(TurnAttachment { id: self.attachment_id, kind })
    }
}

/// An owner and a name. One that begins with a dot could be read as a step in a path, on its way or at the manager.
fn is_id(id: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.');
    let parts = id.split_once('/');
    let is_pair = parts.is_some_and(|(owner, name)| is_part(owner) && is_part(name) && !name.contains('/'));
    is_pair && id.len() <= LONGEST_ID && !id.chars().any(|c| c.is_control() || c == '\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(attachments: Value) -> Result<Vec<TurnAttachment>, String> {
        NamedAttachment::all(serde_json::from_value(attachments).map_err(|error| error.to_string())?)
    }

    #[test]
    fn an_attachment_has_an_id_and_is_an_image() {
        let attachments = json!([
            { "attachmentId": "alice.example/1.png", "mimeType": "image/png" },
            { "attachmentId": "alice.example/2.jpg", "mimeType": "image/jpeg", "filename": "../x" },
            { "attachmentId": "a/3", "mimeType": "image/webp" },
        ]);
        let read = read(attachments).unwrap();
        let kinds: Vec<&str> = read.iter().map(|attachment| attachment.kind.extension()).collect();
        assert_eq!((read[0].id.as_str(), kinds), ("alice.example/1.png", vec!["png", "jpg", "webp"]));
    }

    #[test]
    fn what_is_no_attachment_is_refused() {
        let one = json!({ "attachmentId": "a/1.png", "mimeType": "image/png" });
        for attachments in
            [json!(7), json!("a/1.png"), json!({}), json!(["a/1.png"]), json!([{}]), json!([null])]
        {
            assert!(read(attachments.clone()).is_err(), "{attachments}");
        }
        assert!(read(json!([one, one, one])).is_ok());
        assert!(read(json!([one, one, one, one])).unwrap_err().contains("at most 3"));
        for mime_type in ["", "image/svg+xml", "image/PNG", "image/png; q=1", "text/html"] {
            assert!(
                read(json!([{ "attachmentId": "a/1.png", "mimeType": mime_type }])).is_err(),
                "{mime_type}"
            );
        }
        let long = format!("a/{}", "b".repeat(LONGEST_ID));
        for id in [
            "",
            "/",
            "a",
            "a/",
            "/a",
            "../..",
            "..",
            "a/..",
            "./a",
            "a/b/c",
            "/etc/passwd",
            "a/b\n",
            "a/b\\c",
            &long,
        ] {
            let refused = read(json!([{ "attachmentId": id, "mimeType": "image/png" }]));
            assert!(refused.unwrap_err().starts_with("attachment 1 "), "{id:?}");
        }
    }

    #[test]
    fn an_image_is_known_by_its_first_bytes() {
        for (kind, bytes) in [
            (ImageKind::Png, b"\x89PNG\r\n\x1a\n...".as_slice()),
            (ImageKind::Jpeg, b"\xff\xd8\xff\xe0"),
            (ImageKind::Gif, b"GIF89a.."),
            (ImageKind::Webp, b"RIFF\x00\x00\x00\x00WEBPVP8 "),
        ] {
            assert!(kind.begins(bytes), "{kind:?}");
            for other in [b"".as_slice(), b"RIFF", b"<svg", b"{\"ok\":true}"] {
                assert!(!kind.begins(other), "{kind:?} {other:?}");
            }
        }
    }
}
