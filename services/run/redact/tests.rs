//! Both ways: no known secret stays, whatever stands around it, and ordinary text passes as it is.

use super::words::READ;
use super::{redact_json, redact_text};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::value::RawValue;
use std::time::Instant;
use testing::cases;

/// Secrets as they are made: random, with digits, upper and lower case. The text, and the part that nobody may see.
fn secret() -> impl Strategy<Value = (String, String)> {
    let random = |length: &str| {
        let characters = prop::string::string_regex(&format!("[A-Za-z0-9]{length}")).unwrap();
        characters.prop_map(|text| format!("a{text}Z7"))
    };
    let mark = select(vec!["", "$", "{", "[", "$5", "${", "%", "it's", "a,b;", "(", "&", "="]);
    prop_oneof![
        ("(https?|ftp|redis|postgres|postgresql|amqp)", "[a-z]{0,8}", mark, random("{8,20}")).prop_map(
            |(scheme, name, mark, secret)| (format!("{scheme}://{name}:{mark}{secret}@host/db"), secret)
        ),
        random("{20,40}").prop_map(|secret| (format!("https://ghp_{secret}:$PASSWORD@host"), secret)),
        ("(Bearer|bearer|BEARER) ", random("{12,60}")).prop_map(|(word, secret)| (word + &secret, secret)),
        ("[$\\[{]{0,2}", random("{2,9}"))
            .prop_map(|(mark, secret)| (format!("Authorization: Bearer {mark}{secret}"), secret)),
        (" sk-(proj-|ant-api03-|)", random("{20,48}")).prop_map(|(word, secret)| (word + &secret, secret)),
        ("(hsk|art|ara|arr)_", random("{37}")).prop_map(|(word, secret)| (word + &secret, secret)),
        ("eyJ[A-Za-z0-9]{10,40}", random("{8,40}"), random("{20,43}"))
            .prop_map(|(header, payload, secret)| (format!("{header}.{payload}.{secret}"), secret)),
        ("(RSA |EC |)PRIVATE KEY", random("{64}"), random("{64}")).prop_map(|(label, line, secret)| {
            (format!("-----BEGIN {label}-----\n{line}\n{secret}\n-----END {label}-----"), secret)
        }),
        ("(RSA |EC |)PRIVATE KEY", random("{64}"), random("{60}")).prop_map(|(label, line, secret)| {
            (format!("-----BEGIN {label}-----\n{line}\n{secret}"), secret)
        }),
    ]
}

/// What may stand before a secret and after it.
fn surrounding() -> impl Strategy<Value = (&'static str, &'static str)> {
    select(vec![
        ("", ""),
        (" ", " "),
        ("\n", "\n"),
        ("\"", "\""),
        ("'", "'"),
        ("`", "`"),
        ("(", ")"),
        ("[", "]"),
        ("{", "}"),
        ("<", ">"),
        ("key=", ";"),
        ("key: ", ","),
        ("|", "|"),
        ("**", "**"),
        ("+ ", "\n+ b"),
        ("a,", ",b"),
        ("…", "…"),
        ("密钥", "。"),
        ("\u{1b}[31m", "\u{1b}[0m"),
        ("{\"key\":\"", "\",\"n\":1}"),
    ])
}

/// JSON in JSON, so many times; `/` is escaped by some.
fn escaped(text: &str, times: usize, slashes: bool) -> String {
    (0..times).fold(text.to_owned(), |text, _| {
        let json = serde_json::to_string(&text).unwrap();
        if slashes { json.replace('/', "\\/") } else { json }
    })
}

/// Texts with everything that secrets have, but no secret.
fn ordinary() -> impl Strategy<Value = String> {
    let beginnings = ["://", "bearer", "basic", "sk-", "hsk_", "art_", "ara_", "arr_", "eyJ", "-----BEGIN "];
    // A quote after the mark of a key is one of code that joins the lines of the key.
    let none = move |text: &String| {
        !text.contains(['"', '\'', '`'])
            && !beginnings.iter().any(|beginning| text.to_lowercase().contains(&beginning.to_lowercase()))
    };
    let piece = prop_oneof![
        4 => "[a-z]{1,12}",
        2 => "\\PC{0,8}".prop_filter("no beginning", none),
        1 => "(task|disk|risk)-[a-z]{1,12}-[0-9]{1,4}",
        1 => "(chart|start|art|hsk)_[a-z0-9]{1,30}",
        1 => "[0-9a-f]{64}",
        1 => "(/[a-z]{1,8}){1,4}(\\.[a-z]{1,4})?",
        1 => "https://[a-z]{1,8}\\.example(/[a-z@]{1,8})?",
        1 => "https://[a-z]{1,8}\\.example(:[0-9]{2,5})?[,;|)(&][a-z]{1,8}@[a-z]{1,8}",
        1 => "(Bearer|Basic) [a-z]{1,12}",
        1 => "[a-z]{1,8}@[a-z]{1,8}",
        1 => "\"-----BEGIN [A-Z]{1,8} KEY-----\", \"\"[).;]",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn no_secret_is_left(
        before in ordinary(), (open, close) in surrounding(), (text, secret) in secret(), after in "\\PC{0,20}",
        times in 0usize..3, slashes: bool
    ) {
        let text = escaped(&format!("{before}{open}{text}{close}{after}"), times, slashes);
        let redacted = redact_text(&text).into_owned();
        prop_assert!(!redacted.contains(&secret), "{text}\n{redacted}");
        prop_assert!(!redact_text(&redacted).contains(&secret));
    }

    #[test]
    fn a_surrounded_secret_takes_nothing_with_it((open, close) in surrounding(), (text, _) in secret()) {
        let redacted = redact_text(&format!("before {open}{text}{close} after it")).into_owned();
        prop_assert!(redacted.starts_with("before ") && redacted.ends_with(" after it"), "{redacted}");
        prop_assert_eq!(redact_text(&redacted).into_owned(), redacted.clone(), "redacted twice");
    }

    #[test]
    fn text_without_secrets_is_not_changed(text in ordinary(), times in 0usize..3, slashes: bool) {
        let text = escaped(&text, times, slashes);
        prop_assert_eq!(redact_text(&text), text.as_str());
    }

    #[test]
    fn any_text_is_read(text in "(\\PC|://|:\\\\/|@|Bearer |Basic |sk-|art_|eyJ|\\.|-----BEGIN |-----END |A-----|\\\\n|\\\\u002f|'|\n|é){0,40}") {
        let once = redact_text(&text).into_owned();
        prop_assert!(once.len() <= text.len() + 10 * text.len());
    }
}

/// What back ends say and print.
const CORPUS: &[&str] = &[
    // Words and numbers.
    "the task-force is risk-averse: disk-usage-2026 and dusk-to-dawn, brusk-mannered, ask-me-anything-12345678",
    "input_tokens: 7, total_tokens=12345; tokens per second: 81.3; secret sauce; a password must be long",
    "Bearer of bad news; the bearer, a bearer token, bearer-only; Basic research; basic types: int, float",
    "550e8400-e29b-41d4-a716-446655440000 da39a3ee5e6b4b0d3255bfef95601890afd80709 d41d8cd98f00b204e9800998ecf8427e",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5m3wq9iHkz1cZ0sT0h1s1xD4eW8Yw2eQx5y6jQm0aB me@host",
    // URLs, addresses, and lists of them.
    "https://example.com/a/b?c=d&mail=a@b.c#x@y http://localhost:5432/@scope/pkg@1.2.3 ftp://files.example.org:21/a@b",
    "Acme,https://acme.com,info@acme.com\nBeta,https://beta.io:8443,hello@beta.io\n",
    "name;url;mail\nAcme;https://acme.com;info@acme.com",
    "| Acme | https://acme.com|info@acme.com |",
    "[site](https://acme.com)[mail](mailto:info@acme.com), <https://acme.com> <info@acme.com>",
    "(https://a.b)(x@y.z) {https://a.b}{x@y.z} https://acme.com|a@b.c",
    "{\"url\":\"https://acme.com\",\"mail\":\"a@b.c\"} {\"url\":\"https:\\/\\/acme.com\",\"mail\":\"a@b.c\"}",
    "{'url':'https://acme.com','mail':'info@acme.com'} ['https://a.b:80','x@y.z']",
    "git clone git@github.com:acme/site.git; git clone ssh://git@github.com/acme/site.git",
    "postgres://localhost:5432/run?sslmode=disable postgres://db1:5432,db2:5432/app?application_name=a@b",
    "jdbc:postgresql://db:5432/app, redis://cache:6379/0, amqp://mq/vhost, mongodb://a:27017,b:27017/x?replicaSet=r@1",
    "访问https://example.com，邮箱a@b.c；或https://example.com。",
    // Code.
    "s.replace(\"-----BEGIN PUBLIC KEY-----\", \"\").replace(\"-----END PUBLIC KEY-----\", \"\").replace(/\\s/g, \"\")",
    "const pem = `-----BEGIN CERTIFICATE-----\\n${body}\\n-----END CERTIFICATE-----`;",
    "if !text.starts_with(\"-----BEGIN PRIVATE KEY-----\") { return Err(Error::NotPem) }\nlet end = text.find(\"-----END PRIVATE KEY-----\");",
    "PEM goes from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE----- and is base64 between them.",
    "dsn = f\"postgres://{user}:{password}@{host}:{port}/{name}\"; url = \"https://%s:%s@%s\" % (user, password, host)",
    "DATABASE_URL=postgres://${DB_USER}:${DB_PASSWORD}@db:5432/app\nREDIS_URL=redis://:$REDIS_PASSWORD@redis:6379",
    "curl -H \"Authorization: Bearer $TOKEN\" -H 'Authorization: Bearer ${TOKEN}' -u \"$USER:$PASS\" https://api.example.com",
    "headers = { Authorization: `Bearer ${token}`, \"X-Api-Key\": process.env.API_KEY }",
    "req.Header.Set(\"Authorization\", \"Bearer \"+token); req.Header.Set(\"Authorization\", fmt.Sprintf(\"Bearer %s\", token))",
    "re.match(r'^https?://([^:@/]+)(?::([^@/]*))?@', url); url.replace(/:\\/\\/[^@]*@/, '://***@')",
    "fn main() {\n\tlet x: Vec<u8> = vec![1, 2]; // art_work, para_1, chart_total, arr_len\n\tprintln!(\"{x:?}\");\n}",
    "class=\"sk-circle sk-circle12 sk-toggleable__label-arrow\" id=\"sk-container-id-1\" href=\"#sk-estimator-doc-link\"",
    "import { skEyJ } from './eyJ'; eyJ.parse(a.b.c); eyJ0.e.f",
    "<img src=\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\">",
    "C:\\new\\task-1\\readme.txt /usr/lib/python3.11/site-packages/sk-learn/__init__.py ~/.config/sk-1.toml",
    // Diffs, logs, tables.
    "diff --git a/src/a.rs b/src/a.rs\nindex 83db48f..bf3a1c2 100644\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,4 @@\n-let url = \"https://a.b\";\n+let url = \"https://a.c\"; // by x@y.z\n",
    "+  if (pem.includes(\"-----BEGIN RSA PRIVATE KEY-----\")) {\n-  if (pem.includes(\"-----BEGIN PRIVATE KEY-----\")) {",
    "2026-01-01T00:00:00.123Z INFO [gateway] GET https://api.example.com/v1/runs?limit=5 200 12ms user=a@b.c",
    "WWW-Authenticate: Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\"; Basic realm=\"x\"",
    "Copying docker://alpine:3.19@sha256:c5b1261d6d3e43071626931fc004f70149baeba2c8ec672bd4f27761f8e1ad6b",
    "a\tb\tc\n1\t2\t3 -> 4 => 5 ... [1] {2} (3) <4> |5| `6` 'it''s' \"7\" $8 %9 ^0 &amp; # * ~",
    "# Title\n\n- [x] item `code` **bold** _em_ [a](https://a.b/c) ![i](https://a.b/i.png)\n\n| a | b |\n|---|---|\n-----\n",
    "----------------------------- BEGIN ----- END -----",
    "\u{1b}[32m✓\u{1b}[0m passed (12ms) ünïcödé 中文 🎉 \u{feff}",
];

#[test]
fn ordinary_text_passes_in_every_form() {
    for text in CORPUS.iter().map(|text| (*text).to_owned()).chain([CORPUS.join("\n"), CORPUS.join(" ")]) {
        for (times, slashes) in [(0, false), (1, false), (1, true), (2, false), (2, true)] {
            let text = escaped(&text, times, slashes);
            let redacted = redact_text(&text);
            let common = redacted.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
            let changed = &redacted[redacted.floor_char_boundary(common.saturating_sub(40))..];
            assert!(redacted == text, "changed: {:.200}", changed);
            let json = RawValue::from_string(serde_json::to_string(&[&text]).unwrap()).unwrap();
            assert_eq!(redact_json(&json).unwrap().get(), json.get());
        }
    }
}

/// Beginnings of secrets, over and over: each is looked at, and none of them may read the rest of the text.
const REPEATED: &[&str] = &[
    "://",
    ":\\/\\/",
    ":\\\\\\\\\\\\\\",
    "://a'",
    "://u:a'",
    "://'@",
    "://a:b@",
    "://a,",
    "://{a}",
    "postgres://u:x",
    "postgres://u:x'@",
    "bearer ",
    "Bearer a",
    "bearer%20",
    "Bearer aB3aB3aB3",
    "authorization: bearer ",
    "authorization: bearer $(a ",
    "authorization: bearer ${a",
    "bearer\\/",
    "basic ",
    "basic YTpi",
    "basic\\/",
    "sk-",
    "sk-aB3",
    "xsk-",
    "sk-aaaaaaaaaaaaaaaaaaaa-1-",
    "art_",
    "eyJ",
    "eyJaaaaaaaaaa.",
    "eyJ.",
    "-----BEGIN ",
    "-----BEGIN A-----",
    "-----BEGIN A-----\n",
    "-----BEGIN A-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n",
    "-----BEGIN A-----\n\"+\"",
    "-----BEGIN A-----\\n\\\\\\",
    "-----END A-----",
    "-----",
    "\"",
    "'",
    "\\",
    "\\\"",
    "\n",
    "a",
    "é",
    "$",
    "{",
    "%s",
    "lorem ipsum dolor sit amet, 12345 (a.b) \n",
];

/// How many bytes are read again after something was found.
fn read_in(text: &str) -> usize {
    READ.set(0);
    redact_text(text);
    READ.get()
}

#[test]
fn what_is_read_is_linear_in_the_text() {
    for repeated in REPEATED {
        for (before, after) in [("", ".a. end"), ("-----BEGIN A-----\n", "!"), ("://u:", "@")] {
            let text = format!("{before}{}{after}", repeated.repeat((1 << 15) / repeated.len()));
            let read = read_in(&text);
            // Most are read a few times; the worst judges 256 bytes at every fourth. What is quadratic reads thousands of times as much.
            assert!(read < 300 * text.len(), "{repeated:?} after {before:?}: {read} of {}", text.len());
        }
    }
}

/// Prints how long the largest texts take, in total.
#[test]
#[ignore = "measures"]
fn how_long_four_mebibytes_take() {
    let ordinary = CORPUS.join("\n");
    for repeated in REPEATED.iter().chain([&ordinary.as_str()]) {
        let text = repeated.repeat((4 << 20) / repeated.len());
        let began = Instant::now();
        redact_text(&text);
        println!("{:>10.1?} {repeated:.80?}", began.elapsed());
    }
}
