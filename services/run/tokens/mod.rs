//! Tokens of tenants, administrators and runners: made here, shown once, stored as hashes.

mod token_create;
mod token_revoke;
#[expect(clippy::module_inception, reason = "a method has a file of its name")]
mod tokens;
mod verify_token;

use crate::RunService;
use crate::access::{ADMIN, RUNNER, TENANT};
use kernel::{Ids, Rpc, sha256_hex};

const CHARACTERS: usize = 40;
/// How many characters of a token are stored as they are, so that people can say which one they mean.
const SHOWN: usize = 12;

const PREFIXES: [(&str, &str); 3] = [("art_", TENANT), ("ara_", ADMIN), ("arr_", RUNNER)];

/// Adds the methods of tokens.
pub(crate) fn methods(rpc: Rpc<RunService>) -> Rpc<RunService> {
    rpc.method(RunService::token_create)
        .method(RunService::token_revoke)
        .method(RunService::tokens)
        .method(RunService::verify_token)
}

impl RunService {
    /// A token for one attempt at a run. The caller stores it.
    pub(crate) fn new_runner_token(&self) -> String {
        new_token(&self.ids, RUNNER)
    }
}

/// The prefix of its kind and 40 characters, each as likely as any other.
fn new_token(ids: &Ids, kind: &str) -> String {
    let prefix = PREFIXES.iter().find(|(_, of)| *of == kind).map_or("", |(prefix, _)| prefix);
    format!("{prefix}{}", ids.base62::<CHARACTERS>())
}

/// What is stored of a token.
pub(crate) fn hash_of(token: &str) -> String {
    sha256_hex(token)
}

/// The beginning of a token, with which it is listed and revoked.
pub(crate) fn shown_part(token: &str) -> String {
    token.chars().take(SHOWN).collect()
}

/// Whether a text has the form of a token.
fn is_token(text: &str) -> bool {
    let rest = PREFIXES.iter().find_map(|(prefix, _)| text.strip_prefix(prefix));
    rest.is_some_and(|rest| rest.len() == CHARACTERS && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_their_form_and_differ() {
        let ids = Ids::default();
        for (prefix, kind) in PREFIXES {
            let (one, other) = (new_token(&ids, kind), new_token(&ids, kind));
            assert!(is_token(&one) && one.starts_with(prefix) && one != other, "{one} {other}");
            assert_eq!((shown_part(&one).as_str(), hash_of(&one).len()), (&one[..12], 64));
            for bad in ["", prefix, &one[1..], &format!("{one}x"), &one.replace(prefix, "arx_")] {
                assert!(!is_token(bad), "{bad}");
            }
        }
    }
}
