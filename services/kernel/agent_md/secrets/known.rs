//! Secrets that are known by their form alone.

use super::harmless::is_placeholder;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// How keys of well-known services begin.
const PREFIXES: [&str; 6] = ["sk-", "AKIA", "ghp_", "github_pat_", "xox", "hsk_"];

/// The head of a PEM file: `-----BEGIN`, the kind of key, and `PRIVATE KEY`.
pub(super) fn private_key(text: &str) -> Option<usize> {
    let text = text.to_ascii_uppercase();
    let mut heads = text.match_indices("-----BEGIN ");
    heads.find_map(|(at, head)| {
        let label = text[at + head.len()..].split(['-', '\n']).next()?;
        label.contains("PRIVATE KEY").then_some(at)
    })
}

/// A key of a service that gives its keys a beginning of their own.
pub(super) fn access_key(text: &str) -> Option<usize> {
    let found = PREFIXES.into_iter().filter_map(|prefix| {
        let mut places = text.match_indices(prefix).map(|(at, _)| at);
        places.find(|at| {
            // `task-scheduling` has no key in it.
            let begins = !text[..*at].ends_with(is_part);
            let key = &text[*at..];
            let key = &key[..key.find(|next| !is_part(next)).unwrap_or(key.len())];
            begins && follows(prefix, &key[prefix.len()..]) && !is_placeholder(key)
        })
    });
    found.min()
}

/// Whether what stands behind a prefix makes a key of it.
fn follows(prefix: &str, rest: &str) -> bool {
    let is_upper = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit();
    match prefix {
        "sk-" => rest.len() >= 20 && rest.split(['-', '_']).any(is_random),
        "AKIA" => rest.len() == 16 && rest.bytes().all(is_upper),
        "ghp_" => rest.len() >= 36,
        "xox" => is_chat_token(rest),
        _ => rest.len() >= 40,
    }
}

/// Three parts in base64url with dots between them, of which the first is the head of a JSON Web Token.
pub(super) fn web_token(text: &str) -> Option<usize> {
    let is_part = |next: char| is_part(next) || next == '.';
    let mut at = 0;
    for run in text.split_inclusive(|next| !is_part(next)) {
        let parts: Vec<&str> = run.trim_end_matches(|next| !is_part(next)).split('.').collect();
        let mut start = at;
        for three in parts.windows(3) {
            if three.iter().all(|part| !part.is_empty()) && is_token_head(three[0]) {
                return Some(start);
            }
            start += three[0].len() + 1;
        }
        at += run.len();
    }
    None
}

fn is_token_head(part: &str) -> bool {
    let json = URL_SAFE_NO_PAD.decode(part).ok();
    let head = json.and_then(|json| serde_json::from_slice::<Value>(&json).ok());
    head.is_some_and(|head| head.get("alg").is_some())
}

fn is_part(next: char) -> bool {
    next.is_ascii_alphanumeric() || matches!(next, '-' | '_')
}

/// Longer than words are, or as long as the longest of them and with digits inside.
fn is_random(part: &str) -> bool {
    let (digits, others) =
        (part.bytes().any(|b| b.is_ascii_digit()), part.bytes().any(|b| b.is_ascii_alphabetic()));
    part.len() >= 24 || part.len() >= 16 && digits && others
}

/// What follows `xox`: one of a-z, a hyphen, and numbers with the secret behind them.
fn is_chat_token(rest: &str) -> bool {
    let mut rest = rest.chars();
    let begins = rest.next().is_some_and(|kind| kind.is_ascii_lowercase()) && rest.next() == Some('-');
    let rest = rest.as_str();
    begins && rest.len() >= 10 && rest.bytes().any(|b| b.is_ascii_digit())
}
