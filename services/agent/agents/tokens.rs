//! Agent tokens and secrets of webhooks: made here, shown once.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::{Ids, sha256_hex};

const PREFIX: &str = "hsk_";
const CHARACTERS: usize = 40;

/// `hsk_` and 40 characters, each as likely as any other.
pub(super) fn new_token(ids: &Ids) -> String {
    format!("{PREFIX}{}", ids.base62::<CHARACTERS>())
}

/// What is stored of a token.
pub(crate) fn hash_of(token: &str) -> String {
    sha256_hex(token)
}

/// Whether a text has the form of an agent token.
pub(crate) fn is_agent_token(text: &str) -> bool {
    text.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.len() == CHARACTERS && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// 32 random bytes. The text is the key of the signatures, as it is shown.
pub(super) fn new_webhook_secret(ids: &Ids) -> String {
    STANDARD.encode(ids.bytes::<32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_their_form_and_differ() {
        let ids = Ids::default();
        let (one, other) = (new_token(&ids), new_token(&ids));
        assert!(is_agent_token(&one) && is_agent_token(&other) && one != other, "{one} {other}");
        assert_eq!((one.len(), hash_of(&one).len()), (44, 64));
        for bad in [
            "",
            "hsk_",
            &one[1..],
            &format!("{one}x"),
            &one.replace("hsk_", "hsx_"),
            "hsk_!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!",
        ] {
            assert!(!is_agent_token(bad), "{bad}");
        }
        assert_eq!(STANDARD.decode(new_webhook_secret(&ids)).unwrap().len(), 32);
    }
}
