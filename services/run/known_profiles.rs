//! The names of provider profiles and of their secrets, and the profiles that are always listed.

use crate::error::Error;

/// The one profile without a credential.
pub(crate) const EXAMPLE: &str = "example";
/// The profiles that are always listed.
pub(crate) const BUILT_IN: [&str; 5] = ["codex", "deepseek", "dsflash-go", EXAMPLE, "minimax-m3"];

/// The namespace of all secrets.
pub(crate) const NAMESPACE: &str = "agentrun-v01";
const SECRET: &str = "agentrun-v01-provider-";
const LONGEST: usize = 63;

pub(crate) fn is_builtin(profile: &str) -> bool {
    BUILT_IN.contains(&profile)
}

/// The name of the secret with the credential of a profile.
pub(crate) fn secret_name(profile: &str) -> String {
    format!("{SECRET}{profile}")
}

/// The profile whose credential a secret of this name has.
pub(crate) fn profile_of_secret(name: &str) -> Option<&str> {
    name.strip_prefix(SECRET).filter(|profile| is_slug(profile))
}

/// Whether a secret is for tools: it has no credential of a profile.
pub(crate) fn is_of_tools(name: &str) -> bool {
    name.strip_prefix(NAMESPACE).is_some_and(|rest| rest.starts_with("-tool-"))
}

/// `^[a-z][a-z0-9-]{0,62}$`
pub(crate) fn is_slug(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.len() <= LONGEST
        && text.bytes().all(allowed)
}

pub(crate) fn check_slug(profile: &str) -> Result<(), Error> {
    match is_slug(profile) {
        true => Ok(()),
        false => Err(Error::Invalid(
            "backendProfile must have 1 to 63 characters of a-z, 0-9 and '-', and begin with one of a-z"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_a_lower_case_word() {
        for good in ["a", "codex", "minimax-m3", &"a".repeat(63)] {
            assert!(is_slug(good), "{good}");
            assert_eq!(profile_of_secret(&secret_name(good)), Some(good));
        }
        for bad in ["", "A", "3a", "-a", "a_b", "a.b", "a/b", "ä", &"a".repeat(64)] {
            assert!(!is_slug(bad), "{bad}");
        }
        assert!(BUILT_IN.is_sorted() && BUILT_IN.iter().all(|profile| is_slug(profile)));
        assert_eq!(profile_of_secret("agentrun-v01-provider-../x"), None);
    }
}
