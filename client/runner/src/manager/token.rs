//! The token of a runner, which proves that it is the runner of one run and attempt.

use std::fmt;

/// A token that can be sent in a header. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct RunnerToken(String);

/// What was given is no token. The text itself is not shown: it may be one with a typing error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token of a runner must be one word that begins with arr_")]
pub struct TokenRefused;

impl RunnerToken {
    /// A token as a file or a pipe has it: white space around it does not count.
    pub fn read(text: &str) -> Result<RunnerToken, TokenRefused> {
        let token = text.trim();
        let is_word = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match is_word && token.starts_with("arr_") && (9..=200).contains(&token.len()) {
            true => Ok(RunnerToken(token.to_owned())),
            false => Err(TokenRefused),
        }
    }

    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// The value, for the list of what must not be said.
    pub(crate) fn value(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RunnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunnerToken([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_of_its_kind_and_is_never_shown() {
        let token = RunnerToken::read(" arr_abcDEF123\n").unwrap();
        assert_eq!(token.header(), "Bearer arr_abcDEF123");
        assert_eq!(format!("{token:?}"), "RunnerToken([redacted])");
        for text in [
            "",
            "arr_",
            "art_abcDEF123",
            "arr_abc DEF",
            "arr_abc\r\nx: y",
            &format!("arr_{}", "a".repeat(300)),
        ] {
            assert_eq!(RunnerToken::read(text), Err(TokenRefused), "{text:?}");
        }
    }
}
