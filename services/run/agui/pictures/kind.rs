//! What a picture is, by its first bytes. An SVG is a program, and no picture.

/// A format that front ends show and back ends read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PictureKind {
    pub mime_type: &'static str,
    pub extension: &'static str,
}

const PNG: PictureKind = PictureKind { mime_type: "image/png", extension: "png" };
const JPEG: PictureKind = PictureKind { mime_type: "image/jpeg", extension: "jpg" };
const GIF: PictureKind = PictureKind { mime_type: "image/gif", extension: "gif" };
const WEBP: PictureKind = PictureKind { mime_type: "image/webp", extension: "webp" };

impl PictureKind {
    pub fn of_bytes(bytes: &[u8]) -> Option<PictureKind> {
        let begins = |start: &[u8]| bytes.starts_with(start);
        if begins(b"\x89PNG\r\n\x1a\n") {
            Some(PNG)
        } else if begins(b"\xff\xd8\xff") {
            Some(JPEG)
        } else if begins(b"GIF87a") || begins(b"GIF89a") {
            Some(GIF)
        } else if begins(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            Some(WEBP)
        } else {
            None
        }
    }

    /// By the name of a file that the service has made.
    pub fn of_name(name: &str) -> Option<PictureKind> {
        let (_, extension) = name.rsplit_once('.')?;
        [PNG, JPEG, GIF, WEBP].into_iter().find(|kind| kind.extension == extension)
    }

    /// Whether a declared type means this one.
    pub fn is_called(self, declared: &str) -> bool {
        let declared = declared.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        declared == self.mime_type || (self == JPEG && declared == "image/jpg")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_what_its_bytes_say() {
        for (bytes, mime_type) in [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a..", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
            (b"\x89PN", None),
            (b"", None),
        ] {
            assert_eq!(PictureKind::of_bytes(bytes).map(|kind| kind.mime_type), mime_type, "{bytes:?}");
        }
        assert!(
            JPEG.is_called("image/JPEG; q=1") && JPEG.is_called("image/jpg") && !PNG.is_called("image/gif")
        );
        assert_eq!(PictureKind::of_name("a.webp"), Some(WEBP));
        assert_eq!(PictureKind::of_name("a.svg"), None);
    }
}
