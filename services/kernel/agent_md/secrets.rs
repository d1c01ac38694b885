//! What looks like a secret in a document that everybody can read: published by mistake, it would be known for good.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// A shorter word behind `password:` is taken for prose.
const PASSWORD_CHARS: usize = 8;

/// The first secret of each kind: what it looks like, and where it begins.
pub(super) fn find(text: &str) -> Option<(&'static str, usize)> {
    let private_key = || private_key(text).map(|at| ("a private key", at));
    let client_secret = || valued(text, "client_secret", &[':', '='], 1).map(|at| ("a client_secret", at));
    let password = || valued(text, "password", &[':'], PASSWORD_CHARS).map(|at| ("a password", at));
    let token = || token(text).map(|at| ("a token", at));
    private_key().or_else(client_secret).or_else(password).or_else(token)
}

/// The head of a PEM file: `-----BEGIN`, the kind of key, and `PRIVATE KEY`.
fn private_key(text: &str) -> Option<usize> {
    let text = text.to_ascii_uppercase();
    let mut heads = text.match_indices("-----BEGIN ");
    heads.find_map(|(at, head)| {
        let label = text[at + head.len()..].split(['-', '\n']).next()?;
        label.contains("PRIVATE KEY").then_some(at)
    })
}

/// A name with one of these signs and a value of so many characters behind it, as in YAML, JSON and settings.
fn valued(text: &str, name: &str, signs: &[char], chars: usize) -> Option<usize> {
    let text = text.to_ascii_lowercase();
    let mut names = text.match_indices(name);
    names.find_map(|(at, name)| {
        let rest = &text[at + name.len()..];
        let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest);
        let rest = rest.trim_start_matches([' ', '\t']).strip_prefix(signs)?.trim_start_matches([' ', '\t']);
        let value = match rest.strip_prefix(['"', '\'']) {
            Some(quoted) => quoted.split(['"', '\'']).next()?,
            None => rest,
        };
        let length = value.chars().take_while(|next| !next.is_whitespace()).count();
        (length >= chars).then_some(at)
    })
}

/// Three parts in base64url with dots between them, of which the first is the head of a JSON Web Token.
fn token(text: &str) -> Option<usize> {
    let is_part = |next: char| next.is_ascii_alphanumeric() || matches!(next, '-' | '_' | '.');
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

#[cfg(test)]
mod tests {
    use super::find;

    // {"alg":"HS256","typ":"JWT"}.{"sub":"1"}.…
    const TOKEN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
    // {"sub":"1"} is no head.
    const NO_TOKEN: &str = "eyJzdWIiOiIxIn0.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";

    #[test]
    fn secrets_are_found_where_they_begin() {
        let token = &format!("use `{TOKEN}`");
        let inner = &format!("x.y.{TOKEN}.z");
        let cases = [
            ("x\n-----BEGIN PRIVATE KEY-----\nMIG", "a private key", 2),
            ("-----BEGIN EC PRIVATE KEY-----", "a private key", 0),
            ("-----BEGIN RSA PRIVATE KEY-----", "a private key", 0),
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----", "a private key", 0),
            ("-----BEGIN OPENSSH PRIVATE KEY-----", "a private key", 0),
            ("-----BEGIN PGP PRIVATE KEY BLOCK-----", "a private key", 0),
            ("-----begin private key-----", "a private key", 0),
            ("client_secret: x", "a client_secret", 0),
            ("CLIENT_SECRET=abc", "a client_secret", 0),
            ("{\"client_secret\": \"abc\"}", "a client_secret", 2),
            ("client_secret : 'abc'", "a client_secret", 0),
            ("password: hunter22", "a password", 0),
            ("db_password:hunter22", "a password", 3),
            ("Password:\t  p4$$w\u{f6}rd", "a password", 0),
            ("{\"password\": \"hunter22\"}", "a password", 2),
            ("password: short\npassword: long-enough", "a password", 16),
            (token, "a token", 5),
            (TOKEN, "a token", 0),
            (inner, "a token", 4),
        ];
        for (text, what, at) in cases {
            assert_eq!(find(text), Some((what, at)), "{text}");
        }
    }

    #[test]
    fn what_only_looks_similar_is_no_secret() {
        for text in [
            "",
            "I never ask for your password, and nobody else should: passwords are dead.",
            "password: hunter2",
            "password:\nhunter2222",
            "password: \"seven77\" is what nobody should use",
            "the password is: hunter2222",
            "send me your client_secret and I will refuse it",
            "client_secret:",
            "client_secret:  \nnext line",
            "`client_secret`: never needed",
            "{\"client_secret\": \"\"}",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "-----BEGIN PUBLIC KEY-----\nPRIVATE KEY",
            "I keep my PRIVATE KEY at home",
            NO_TOKEN,
            "alice.agents.localhost and https://www.example.com/a.b.c",
            "eyJhbGciOiJIUzI1NiJ9.only-two",
            "eyJhbGciOiJIUzI1NiJ9..x",
            "...",
        ] {
            assert_eq!(find(text), None, "{text}");
        }
    }

    #[test]
    fn the_document_that_clients_publish_by_themselves_has_none() {
        let document = "---\naid: \"alice.aid.pub\"\nname: \"alice\"\ntype: \"agent\"\nversion: \"1.0.0\"\ndescription: \"AUN agent alice\"\n\
                        ---\n\n# alice\n<!-- AUN-SIGNATURE\ncert_fingerprint: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n\
                        public_key_fingerprint: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\ntimestamp: 1794701761\n\
                        signature: MEUCIQDx+4p2kAbQ7dW8nIYJxqv4n7oQnL0iM2Z4gk1sVb8wOwIgE1Xq7bD2Jm4=\n-->";
        assert_eq!(find(document), None);
    }
}
