//! `https://name:password@host`: what stands between the scheme and the host.

use super::words::{beside_placeholders, count_read, ends_with_word, escaped, is_placeholder, is_words, run};

/// Within how many bytes the password of a connection string has to end, where it has characters that URLs do not allow.
const PASSWORD: usize = 256;
/// The longest scheme of a connection string, with the name of a driver after `+`.
const LONGEST_SCHEME: usize = 40;
/// What stands between a URL and another text. It is in no name, though in passwords.
const BETWEEN: [char; 10] = [',', ';', '|', '(', ')', '[', ']', '{', '}', '&'];

/// How many bytes a name and a password have that begin here, after `scheme://`. `None`: there is none, or everybody may know it.
pub(super) fn userinfo(before: &str, rest: &str) -> Option<usize> {
    let authority = unquoted(&rest[..url_end(rest, |c| matches!(c, '/' | '?' | '#'))]);
    let length = match is_connection_string(before) {
        true => password_end(rest, authority),
        false => authority.rfind('@'),
    }?;
    let userinfo = &rest[..length];
    // `git` is the name of everybody at the hosts of repositories, and before a digest is the name of an image.
    let public = userinfo.is_empty() || userinfo == "git" || rest[length + 1..].starts_with("sha256:");
    (!public && !is_other_text(userinfo) && !is_template(userinfo)).then_some(length)
}

/// Where a URL ends, at the latest.
pub(super) fn url_end(text: &str, or_at: impl Fn(char) -> bool) -> usize {
    let ends = |(at, c): &(usize, char)| match c {
        '\\' => escaped(&text.as_bytes()[*at..]).is_none_or(|(_, c)| b"\"'<>\\`".contains(&c)),
        c => ends_url(*c) || or_at(*c),
    };
    let end = text.char_indices().find(ends).map_or(text.len(), |(at, _)| at);
    count_read(end);
    end
}

/// What no URL has in it: spaces, quotes, and the characters of scripts that are written without spaces around a URL.
fn ends_url(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '"' | '<' | '>' | '`' | '\u{2000}'..)
}

/// Up to the quote that ends it. A password may have a `'`; then an `@` follows before the next one.
fn unquoted(text: &str) -> &str {
    count_read(text.len());
    let mut end = text.find('\'').unwrap_or(text.len());
    while end < text.len() {
        let next = text[end + 1..].find('\'').map_or(text.len(), |found| end + 1 + found);
        if !text[end + 1..next].contains('@') {
            break;
        }
        end = next;
    }
    &text[..end]
}

fn is_connection_string(before: &str) -> bool {
    const SCHEMES: [&str; 9] =
        ["postgres", "postgresql", "mysql", "mariadb", "mongodb", "redis", "rediss", "amqp", "amqps"];
    let of_scheme = |b: &&u8| b.is_ascii_alphanumeric() || b"+.-".contains(b);
    let length = before.as_bytes().iter().rev().take(LONGEST_SCHEME).take_while(of_scheme).count();
    let scheme = &before[before.len() - length..];
    let scheme = scheme.split('+').next().unwrap_or_default();
    SCHEMES.iter().any(|known| ends_with_word(scheme, known))
}

/// The `@` after the password of a connection string. People write passwords into them that have a `/`, so it may be after the first
/// one; but then what follows the `:` is no port.
fn password_end(rest: &str, authority: &str) -> Option<usize> {
    let port = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    match authority.split_once(':') {
        Some((_, password)) if !authority.starts_with('[') && !port(password) => {
            let near = &rest[..rest.floor_char_boundary(PASSWORD)];
            let near = near.rfind('@').map(|last| &near[..=last]);
            let long = near.map(|near| unquoted(&near[..url_end(near, |_| false)]));
            long.and_then(|long| long.rfind('@')).or_else(|| authority.rfind('@'))
        }
        _ => authority.rfind('@'),
    }
}

/// Whether a host ended before the `@`, and another text has begun: `acme.com,info`, `acme.com:8080)(info`.
fn is_other_text(userinfo: &str) -> bool {
    let Some((name, password)) = userinfo.split_once(':') else {
        return beside_placeholders(userinfo).any(|part| part.contains(BETWEEN) || part.contains('\''));
    };
    if beside_placeholders(name).any(|part| part.contains(BETWEEN)) {
        return true;
    }
    let port = run(password.as_bytes(), |b| b.is_ascii_digit());
    (1..=5).contains(&port) && password[port..].starts_with(|c| c == '\'' || BETWEEN.contains(&c))
}

/// Code that makes a URL: each part of it is a placeholder. Only the name may be a word, because a token is none.
fn is_template(userinfo: &str) -> bool {
    match userinfo.split_once(':') {
        None => is_placeholder(userinfo),
        Some((name, password)) => {
            (is_placeholder(name) || is_words(name, 4)) && password.split(':').all(is_placeholder)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::redact_text;

    #[test]
    fn passwords_may_begin_as_placeholders_do() {
        let table = [
            ("postgres://app:$tr0ngPass@db/x", "postgres://[redacted]@db/x"),
            ("https://bob:{x9!k@h", "https://[redacted]@h"),
            ("https://bob:[x9@h", "https://[redacted]@h"),
            ("https://ghp_realtoken:$x@github.com", "https://[redacted]@github.com"),
            ("https://ghp_0aB1cD2eF3gH4iJ5:$X@github.com", "https://[redacted]@github.com"),
            ("https://${USER}:hunter2@h", "https://[redacted]@h"),
            ("https://{user}:$(cat@h", "https://[redacted]@h"),
            ("https://$(whoami):hunter2@h", "https://[redacted]@h"),
            ("https://u:hunter2:$X@h", "https://[redacted]@h"),
            ("https://u:${X:-hunter2}@h", "https://[redacted]@h"),
            ("https://[redacted]:hunter2@h", "https://[redacted]@h"),
        ];
        for (text, expected) in table {
            assert_eq!(redact_text(text), expected);
            assert_eq!(redact_text(expected), expected, "redacted twice");
        }
        for code in [
            "postgres://app:${DB_PASSWORD}@db/app https://${USER}:${PASS}@host https://user:{password}@host",
            "postgres://%s:%s@%s:%d/%s?x=%s mysql://%(user)s:%(password)s@%(host)s redis://:$REDIS_PASSWORD@r:6379",
            "https://x-access-token:${{secrets.GITHUB_TOKEN}}@github.com https://$(DB_USER):$(DB_PASS)@h",
            "https://***:***@github.com https://***@h https://user:***@h postgres://…:…@h https://...:...@h",
            "https://{{db.user}}:{{db.pass}}@h https://{self.user}:{self.password}@{self.host}",
        ] {
            assert_eq!(redact_text(code), code);
        }
    }

    #[test]
    fn a_host_before_another_text_is_no_name() {
        for text in [
            "Acme,https://acme.com,info@acme.com",
            "Acme;https://acme.com;info@acme.com",
            "https://acme.com|a@b.c",
            "(https://a.b)(x@y.z) [https://a.b](mailto:x@y.z) {https://a.b}{x@y.z}",
            "Acme,https://acme.com:8080,info@acme.com",
            "http://localhost:3000;a@b http://[::1]:3000,a@b",
            "url=https://acme.com&email=a@b.c",
            "url='https://acme.com';mail=a@b.c",
            "{'url':'https://acme.com','mail':'x@y.z'} 'https://a.com:80','x@y'",
            "^https?://(?:[^@/]+@)?github\\.com r\"://([^:]+):([^@]+)@\" s#://[^@]*@#://***@#",
            "postgres://db1:5432,db2:5432/app?owner=a@b",
            "docker://alpine:3.19@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        ] {
            assert_eq!(redact_text(text), text);
        }
        let table = [
            ("https://u:a,b;c|d(e)f@h", "https://[redacted]@h"),
            ("https://u:,p@h", "https://[redacted]@h"),
            ("https://u:12345678,p@h", "https://[redacted]@h"),
            ("Acme,https://u:p@acme.com,info", "Acme,https://[redacted]@acme.com,info"),
        ];
        for (text, expected) in table {
            assert_eq!(redact_text(text), expected);
        }
    }

    #[test]
    fn escaped_slashes_and_quotes_are_read() {
        let table = [
            (r#"{"url":"https:\/\/u:secret@h"}"#, r#"{"url":"https:\/\/[redacted]@h"}"#),
            (r#""{\"url\":\"https:\\\/\\\/u:secret@h\"}""#, r#""{\"url\":\"https:\\\/\\\/[redacted]@h\"}""#),
            (r"postgres:\/\/u:p\/w@h\/db", r"postgres:\/\/[redacted]@h\/db"),
            (r#""https://u:a\u0026b@h""#, r#""https://[redacted]@h""#),
            ("https://u:it's@h", "https://[redacted]@h"),
            ("x='https://u:it's@h'", "x='https://[redacted]@h'"),
            ("{'dsn':'https://u:pw@h','mail':'x@y'}", "{'dsn':'https://[redacted]@h','mail':'x@y'}"),
            ("postgresql+asyncpg://u:p/w@h/db", "postgresql+asyncpg://[redacted]@h/db"),
            ("mongodb+srv://u:p/w@h/db", "mongodb+srv://[redacted]@h/db"),
        ];
        for (text, expected) in table {
            assert_eq!(redact_text(text), expected);
            assert_eq!(redact_text(expected), expected, "redacted twice");
        }
        for text in [
            r"https:\/\/example.com\/@scope\/pkg https:\/\/example.com\nmail@example.org",
            "'https://a.com' or 'x@y'",
            "['https://a.com','x@y']",
        ] {
            assert_eq!(redact_text(text), text);
        }
    }
}
