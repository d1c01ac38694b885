//! Signed URLs: who has one sees the picture until it ends, and nobody can make one for another picture or a later time.

use super::BUCKET;
use super::kind::PictureKind;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kernel::iso_ms;
use proto_schemas::requests::agui::SignedAttachment;
use ring::hmac;
use std::fmt;
use std::sync::Arc;

const LIFETIME_MS: i64 = 15 * 60_000;
const PATH: &str = "/api/v1/agent/attachments/agent-inputs/";

/// Where a picture is: whose it is, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PicturePath {
    owner: String,
    name: String,
}

impl PicturePath {
    /// Of names that this service gives: nothing else becomes a path.
    pub fn new(owner: &str, name: &str) -> Option<PicturePath> {
        let is_owner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        let is_name = |b: u8| b.is_ascii_hexdigit() || b == b'-';
        let (stem, _) = name.rsplit_once('.')?;
        PictureKind::of_name(name)?;
        let fits = (1..=255).contains(&owner.len())
            && !owner.starts_with('.')
            && owner.bytes().all(is_owner)
            && stem.len() == 36
            && stem.bytes().all(is_name);
        fits.then(|| PicturePath { owner: owner.to_owned(), name: name.to_owned() })
    }

    pub fn parse(path: &str) -> Option<PicturePath> {
        let (owner, name) = path.split_once('/')?;
        PicturePath::new(owner, name)
    }

    pub fn owner(&self) -> &str {
        &self.owner
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for PicturePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// The key of this server, and the URL that it has.
#[derive(Clone)]
pub(crate) struct PictureKey {
    key: Arc<hmac::Key>,
    base_url: Arc<str>,
}

impl PictureKey {
    pub fn new(secret: &[u8], base_url: &str) -> PictureKey {
        PictureKey { key: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, secret)), base_url: base_url.into() }
    }

    /// The URL of a picture, by its path as it is stored.
    pub fn signed(&self, path: &str, now: i64) -> SignedAttachment {
        let expires = now + LIFETIME_MS;
        let signature = hmac::sign(&self.key, signed_text(path, expires).as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signature);
        SignedAttachment {
            url: format!("{}{PATH}{path}?expires={expires}&signature={signature}", self.base_url),
            mime_type: PictureKind::of_name(path).map_or("", |kind| kind.mime_type).to_owned(),
            bucket: BUCKET.to_owned(),
            path: path.to_owned(),
            expires_at: iso_ms(expires),
        }
    }

    /// The picture of a URL that this server has signed, and that has not ended.
    pub fn verified(&self, url: &str, now: i64) -> Option<PicturePath> {
        let rest = url.strip_prefix(&*self.base_url).unwrap_or(url).strip_prefix(PATH)?;
        let (path, query) = rest.split_once('?')?;
        let path = PicturePath::parse(path)?;
        let of = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
        };
        self.allows(&path, of("expires")?, of("signature")?, now).then_some(path)
    }

    /// Whether a signature is that of this server for a picture until a time that has not come.
    pub fn allows(&self, path: &PicturePath, expires: &str, signature: &str, now: i64) -> bool {
        let Ok(until) = expires.parse::<i64>() else { return false };
        let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else { return false };
        let text = signed_text(&path.to_string(), until);
        until > now && hmac::verify(&self.key, text.as_bytes(), &signature).is_ok()
    }
}

fn signed_text(path: &str, expires: i64) -> String {
    format!("aund-picture-v1\n{BUCKET}/{path}\n{expires}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PICTURE: &str = "alice.aid.pub/550e8400-e29b-41d4-a716-446655440000.png";

    #[test]
    fn a_signed_url_is_for_one_picture_and_a_while() {
        let key = PictureKey::new(b"0123456789abcdef0123456789abcdef", "https://gateway.aid.pub");
        let url = key.signed(PICTURE, 1000).url;
        let path = key.verified(&url, 1000).unwrap();
        assert_eq!((path.to_string().as_str(), path.owner()), (PICTURE, "alice.aid.pub"));
        assert!(
            key.verified(url.strip_prefix("https://gateway.aid.pub").unwrap(), 1000).is_some(),
            "a path alone"
        );
        assert!(key.verified(&url, 999 + LIFETIME_MS).is_some());
        assert!(key.verified(&url, 1000 + LIFETIME_MS).is_none(), "over");
        let other = PictureKey::new(b"another key of another server...", "https://gateway.aid.pub");
        for forged in [
            url.replace("446655440000", "446655440001"),
            url.replace("alice", "bobby"),
            url.replace("expires=", "expires=9"),
            url.replace("signature=", "signature=A"),
            url.replace("https://gateway.aid.pub", "https://elsewhere.example"),
            url.replace(".png", ".svg"),
            url.split('?').next().unwrap().to_owned(),
            format!("https://storage.example.com/{PICTURE}?signature=xxx"),
        ] {
            assert!(key.verified(&forged, 1000).is_none(), "{forged}");
        }
        assert!(other.verified(&url, 1000).is_none());
    }

    #[test]
    fn only_names_of_this_service_become_paths() {
        for bad in [
            "../../etc/passwd",
            "alice/../x.png",
            "a/b",
            ".a/550e8400-e29b-41d4-a716-446655440000.png",
            "a b/550e8400-e29b-41d4-a716-446655440000.png",
            "a/550e8400-e29b-41d4-a716-44665544000.png",
            "a/550e8400-e29b-41d4-a716-446655440000.png/x",
            "/550e8400-e29b-41d4-a716-446655440000.png",
        ] {
            assert_eq!(PicturePath::parse(bad), None, "{bad}");
        }
        assert!(PicturePath::parse(PICTURE).is_some());
    }
}
