//! Texts that have a form.

/// `^[a-z][a-z0-9_]{1,31}$`
pub(super) fn is_tool_name(text: &str) -> bool {
    text.len() >= 2 && is_word(text)
}

/// `^[a-z][a-z0-9_]{0,31}:[a-z][a-z0-9_]{0,31}$`
pub(super) fn is_scope_id(text: &str) -> bool {
    text.split_once(':').is_some_and(|(domain, action)| is_word(domain) && is_word(action))
}

/// The key of a text that a client has in the language of its user.
pub(super) fn is_i18n_key(text: &str) -> bool {
    (1..=200).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// `^[a-z][a-z0-9_]{0,31}$`
fn is_word(text: &str) -> bool {
    text.len() <= 32
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}
