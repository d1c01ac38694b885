//! What is a secret, and what is not.

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
        ("password = sunshine", "a password", 0),
        ("db_password:hunter22", "a password", 3),
        ("Password:\t  p4$$w\u{f6}rd", "a password", 0),
        ("{\"password\": \"hunter22\"}", "a password", 2),
        ("password: short\npassword: long-enough", "a password", 16),
        ("**Password:** `hunter22`", "a password", 2),
        ("passwd=Tr0ub4dor", "a password", 0),
        ("密码：sunshine，请勿外传", "a password", 0),
        ("密码: hunter22", "a password", 0),
        ("口令=Tr0ub4dor", "a password", 0),
        ("令牌：9f8e7d6c5b4a", "a token", 0),
        ("密钥: 9f8e7d6c5b4a", "a key", 0),
        ("api_key: 9f8e7d6c5b4a", "a key", 4),
        ("apikey=AIzaSyA1234567890abcdef", "a key", 3),
        ("accessKey: 9f8e7d6c5b4a", "a key", 6),
        ("API-KEY = \"9f8e7d6c5b4a\"", "a key", 4),
        ("- **API key:** 9f8e7d6c5b4a", "a key", 8),
        ("{\"key\":\"9f8e7d6c5b4a\"}", "a key", 2),
        ("key: qWeRtYuIoPaSdFgH", "a key", 0),
        ("secret: abcd1234efgh", "a secret", 0),
        ("webhook secret: correct-horse-battery-staple", "a secret", 8),
        ("secret=Zm9vYmFyYmF6cXV4MTIzNA==", "a secret", 0),
        ("token: 550e8400-e29b-41d4-a716-446655440000", "a token", 0),
        ("authToken = '0123456789abcdef'", "a token", 4),
        ("token: 1234-5678-9012-3456", "a token", 0),
        ("use sk-abcdefghijklmnopqrst1234567890ABCDEFGHIJKLMNOPQR", "an API key", 4),
        ("sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8x-Yz", "an API key", 0),
        ("sk-0123456789abcdef0123456789abcdef", "an API key", 0),
        ("(AKIAQ3EGPXAKZT4WJ2MD)", "an API key", 1),
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "an API key", 0),
        ("github_pat_11ABCDEFG0aBcDeFgHiJkL_0123456789abcdefghijABCDEFGHIJ0123456789", "an API key", 0),
        ("xoxb-123456789012-abcdefGHIJKL", "an API key", 0),
        ("hsk_0123456789abcdefghijABCDEFGHIJ0123456789", "an API key", 0),
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
        "client_secret: <your client_secret>",
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
fn what_is_public_or_stands_for_a_secret_is_none() {
    for text in [
        "key: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "cert_fingerprint: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "public_key_fingerprint: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "key: 9f:86:d0:81:88:4c:7d:65:9a:2f",
        "public_key: MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE0123456789",
        "Public key: 04ab54a98ceb1f0ad2",
        "publicKey=9f8e7d6c5b4a3210",
        "key: MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE0123456789",
        "key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGXu",
        "公开密钥：9f8e7d6c5b4a3210",
        "token: https://id.agents.localhost/oauth2/token",
        "see https://www.example.com/search?key=a1b2c3d4e5&token=9f8e7d6c5b4a",
        "token: <token>",
        "token: <your token here>",
        "key=${API_KEY_2}",
        "key: $API_KEY_2",
        "secret: {{ webhook_secret_1 }}",
        "password: ${PASSWORD}",
        "password: ********",
        "password: xxxxxxxx",
        "api_key: sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "token: hsk_…",
        "token: abc123def...",
        "API_KEY=YOUR_API_KEY_1",
        "api_key: your-api-key-123",
        "AKIAIOSFODNN7EXAMPLE",
        "key: ~/.ssh/id_ed25519",
    ] {
        assert_eq!(find(text), None, "{text}");
    }
}

#[test]
fn ordinary_prose_is_no_secret() {
    for text in [
        "Key: value pairs are stored as they come.",
        "The key: patience, and practice.",
        "Key features: translation, summaries, code review.",
        "key: internationalisation",
        "Monkey: bananas4everyone",
        "monkey=bananas4everyone",
        "turkey: roasted-for-4-hours",
        "Key facts: founded 2019 in Zürich",
        "Secret: end-to-end-encrypted messages only",
        "The secret: short-lived, audience-bound tokens",
        "My secret = curiosity!",
        "token: tokenization is by words",
        "A token: the unit of text that a model reads.",
        "Tokens: 128000 of context",
        "max_token: 1,000,000",
        "token: 2026-11-01T00:00:00Z",
        "token: JWT-based, signed",
        "token: AccessToken or RefreshToken",
        "token: string(32)",
        "label_i18n_key: agent.scope.filesystem_read.label",
        "description_i18n_key: agent.cap.read_file.description",
        "hot key: Ctrl+Shift+Delete",
        "Primary key: customer_id",
        "Sort key: created_at,updated_at",
        "Keyboard: German layout",
        "task-scheduling-and-management-tool-2026",
        "I do risk-assessment-for-organisations-2026 and disk-encryption-recommendations",
        "sk-learn-compatible-estimators-for-everybody",
        "xoxo-with-love-from-berlin",
        "ghp_ is how tokens of GitHub begin, and sk- how those of others do",
        "passwd: documentation",
        "Forgotten passwords: write to the support",
        "密码：由用户在自己的设备上输入",
        "重置密码：请联系管理员处理，不要发给别人",
        "我不会索要您的密码、密钥或令牌。",
        "密钥：保存在本地设备的安全区域里",
        "令牌：有效期为五分钟，过期后需要重新登录",
        "token 令牌: 用于身份验证的短期凭证",
        "口令：芝麻开门芝麻开门",
    ] {
        assert_eq!(find(text), None, "{text}");
    }
}

#[test]
fn the_document_that_clients_publish_by_themselves_has_none() {
    let document = "---\naid: \"alice.aid.pub\"\nname: \"alice\"\ntype: \"agent\"\nversion: \"1.0.0\"\ndescription: \"AUN agent alice\"\n\
                    ---\n\n# alice\n<!-- AUN-SIGNATURE\ncert_fingerprint: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n\
                    public_key_fingerprint: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n\
                    timestamp: 1794701761\nsignature: MEUCIQDJsEyJhbGciOiJIUzI1NiJ9AIgZ7eyJhbGciOiJIUzI1NiJ9==\n-->";
    assert_eq!(find(document), None);
}
