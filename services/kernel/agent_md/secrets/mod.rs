//! What looks like a secret in a document that everybody can read: published by mistake, it would be known for good.
//!
//! Two things give a secret away: its own form (`known`), and a name before it such as `api_key:` (`named`). What is as long and is no
//! secret is told apart in `harmless`, because a document that is refused for an ordinary sentence cannot be published at all.

mod harmless;
mod known;
mod named;
#[cfg(test)]
mod tests;

/// The first secret of each kind: what it looks like, and where it begins.
pub(super) fn find(text: &str) -> Option<(&'static str, usize)> {
    known::private_key(text)
        .map(|at| ("a private key", at))
        .or_else(|| named::find(text))
        .or_else(|| known::access_key(text).map(|at| ("an API key", at)))
        .or_else(|| known::web_token(text).map(|at| ("a token", at)))
}
