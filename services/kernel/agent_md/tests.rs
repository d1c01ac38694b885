//! Documents that are read, and those that are refused with the reason.

use super::*;
use proptest::prelude::*;
use testing::cases;

const FRONT: &str =
    "---\naid: \"alice.aid.pub\"\nname: \"alice\"\ntype: \"agent\"\nversion: \"1.0.0\"\n---\n\n# alice\n";
const BLOCK: &str = "<!-- AUN-SIGNATURE\ncert_fingerprint: sha256:ab\ntimestamp: 7\nsignature: AAAA\n-->";

fn refused(text: &str) -> String {
    AgentMd::parse(text).unwrap_err().to_string()
}

/// The document with a further line in its front matter.
fn with(line: &str) -> String {
    FRONT.replace("type:", &format!("{line}\ntype:"))
}

#[test]
fn a_signed_document_is_read_and_its_block_signs_all_before_it() {
    let text = format!("{FRONT}{BLOCK}");
    let document = AgentMd::parse(&text).unwrap();
    assert_eq!(document.front.aid, "alice.aid.pub");
    assert_eq!(document.blocks[0].start, FRONT.len());
    assert_eq!(&text[document.body], "\n# alice\n");
    assert!(AgentMd::parse(FRONT).unwrap().blocks.is_empty(), "older clients publish unsigned documents");
}

#[test]
fn a_document_is_the_same_with_other_line_ends_and_without_a_body() {
    let windows = FRONT.replace('\n', "\r\n");
    let document = AgentMd::parse(&windows).unwrap();
    assert_eq!((&*document.front.name, &windows[document.body]), ("alice", "\r\n# alice\r\n"));
    let short = FRONT.trim_end_matches("\n\n# alice\n");
    let document = AgentMd::parse(short).unwrap();
    assert_eq!((&*document.front.kind, document.body), ("agent", short.len()..short.len()));
}

#[test]
fn yaml_tricks_are_refused() {
    let cases = [
        ("tags: &a [x]", "line 4: YAML anchors"),
        ("tags: [*a]", "line 4: YAML aliases"),
        ("tags: [!!str x]", "line 4: YAML tags"),
        ("name: twice", "duplicate"),
        ("other: 1\nother: 2", "duplicate"),
        ("provider: {a: 1, a: 2}", "duplicate"),
        ("skills: [{a: 1, a: 2}]", "duplicate"),
        ("<<: {x: 1}", ""),
        ("- x", "line"),
    ];
    for (line, reason) in cases {
        let sentence = refused(&with(line));
        assert!(sentence.starts_with("front matter: ") && sentence.contains(reason), "{line}: {sentence}");
    }
}

#[test]
fn fields_that_are_not_well_formed_are_named() {
    let cases = [
        (FRONT.replace("name: \"alice\"\n", ""), "name"),
        (FRONT.replace("\"alice\"", "\"  \""), "name must not be empty"),
        (FRONT.replace("\"agent\"", "\"\""), "type must not be empty"),
        (FRONT.replace("type: \"agent\"\n", ""), "type"),
        (FRONT.replace("aid: \"alice.aid.pub\"\n", ""), "aid"),
        (FRONT.replace("1.0.0", ""), "version must have 1 to 32 characters"),
        (FRONT.replace("1.0.0", " "), "version must have 1 to 32 characters"),
        (FRONT.replace("1.0.0", "1.0 beta"), "such as 1.0.0: it is \"1.0 beta\""),
        (FRONT.replace("1.0.0", "-1"), "begin with one of A-Z, a-z, 0-9"),
        (FRONT.replace("1.0.0", "版本1"), "characters of A-Z, a-z, 0-9"),
        (FRONT.replace("1.0.0", &"1".repeat(33)), "version must have 1 to 32 characters"),
        (FRONT.replace("\"1.0.0\"", "[1, 0]"), "front matter"),
        (FRONT.replace("\"agent\"", "group"), "owner"),
        (with("description: \"\""), "description must have 1 to 100 characters"),
        (with(&format!("description: {}", "ü".repeat(101))), "description must have 1 to 100 characters"),
        (with("visibility: hidden"), "hidden"),
        (with("visibility: Public"), "Public"),
        (with("visibility:"), "expected one of public, unlisted, private"),
        (with("tags: coding"), "tags must be a list of texts"),
        (with("tags: {a: b}"), "tags must be a list of texts"),
        (with("tags: [1]"), "tags must be texts, and one is 1"),
        (with("tags: [a, true]"), "tags must be texts, and one is true"),
        (with("tags: [a, [b]]"), "tags must be texts"),
        (with("tags: [a, ~]"), "tags must be texts"),
        (with("tags: [a, \"\"]"), "each of the tags must have 1 to 32 characters"),
        (with(&format!("tags: [{}]", "x".repeat(33))), "each of the tags must have 1 to 32 characters"),
        (with(&format!("tags: [{}]", vec!["x"; 17].join(", "))), "tags must have at most 16 entries, not 17"),
    ];
    for (text, reason) in cases {
        let sentence = refused(&text);
        assert!(sentence.starts_with("front matter: ") && sentence.contains(reason), "{sentence}: {text}");
    }
}

#[test]
fn a_version_is_taken_as_it_is_written_and_one_that_clients_refuse_is_told() {
    for (written, version, told) in [
        ("\"1.0.0\"", "1.0.0", false),
        ("10.20.30", "10.20.30", false),
        ("1.10", "1.10", true),
        ("1", "1", true),
        ("1e3", "1e3", true),
        ("0x10", "0x10", true),
        ("1_000", "1_000", true),
        ("v1.0.0", "v1.0.0", true),
        ("1.0.0-rc1", "1.0.0-rc1", true),
        ("1.0.0+build.5", "1.0.0+build.5", true),
        ("2026-11-01", "2026-11-01", true),
        ("true", "true", true),
        ("'1.0'", "1.0", true),
        (&"9".repeat(32), &"9".repeat(32), true),
    ] {
        let text = FRONT.replace("\"1.0.0\"", written);
        let document = AgentMd::parse(&text).unwrap_or_else(|error| panic!("{written}: {error}"));
        assert_eq!(document.front.version.as_deref(), Some(version), "{written}");
        let warnings = document.warnings();
        assert_eq!(warnings.len(), usize::from(told), "{written}");
        for warning in warnings {
            assert_eq!(warning.path, "/version");
            assert!(warning.message.starts_with(&format!("version is {version:?}: ")), "{}", warning.message);
        }
    }
    assert!(AgentMd::parse(&FRONT.replace("version: \"1.0.0\"\n", "")).unwrap().warnings().is_empty());
}

#[test]
fn what_older_clients_leave_out_may_be_left_out() {
    let old = AgentMd::parse("---\naid: alice.aid.pub\nname: alice\ntype: human\n---\n").unwrap().front;
    assert_eq!((old.version.is_none(), old.is_complete(), old.visibility), (true, false, Visibility::Public));
    let full = with(&format!(
        "description: {}\nvisibility: unlisted\ntags: [on, \"1\", {}]",
        "ü".repeat(100),
        "ü".repeat(32)
    ));
    let full = AgentMd::parse(&full).unwrap().front;
    assert!(full.is_complete());
    assert_eq!((full.visibility, &*full.tags[0], full.tags.len()), (Visibility::Unlisted, "on", 3));
    for line in ["tags:", "tags: []", "description: 2026", "description: Hi! there", "unknown: [1, {a: b}]"] {
        AgentMd::parse(&with(line)).expect(line);
    }
}

#[test]
fn sizes_and_the_shape_of_the_document_are_checked() {
    for text in ["# alice\n", "", "\n---\n", "--- \nname: x\n---\n", "\u{feff}---\n---\n"] {
        assert_eq!(refused(text), "front matter: the document must begin with a line ---", "{text:?}");
    }
    assert_eq!(refused("---\nname: alice\n"), "front matter: a line --- must end it");
    assert_eq!(refused("---"), "front matter: a line --- must end it");
    assert!(refused("---\n---\n").contains("mapping"));
    let full = format!("{FRONT}{}", "x".repeat(4096 - FRONT.len()));
    AgentMd::parse(&format!("{full}{BLOCK}")).expect("4096 bytes fit");
    assert!(refused(&format!("{full}x")).contains("4096"));
    assert!(refused(&format!("{FRONT}{}", BLOCK.repeat(30))).contains("2048"));
    assert_eq!(refused(&format!("{FRONT}a\0b")), "line 9 has a NUL character, which text must not have");
}

#[test]
fn a_secret_is_found_in_every_part_of_a_new_document_but_its_signatures() {
    for text in [
        with("password: hunter2222"),
        format!("{FRONT}\n-----BEGIN EC PRIVATE KEY-----\n"),
        format!("{FRONT}\napi_key: 9f8e7d6c5b4a\n{BLOCK}"),
    ] {
        assert!(matches!(AgentMd::parse_new(&text), Err(AgentMdError::Secret { .. })), "{text}");
        AgentMd::parse(&text).expect("what was published before is read");
    }
    assert_eq!(
        AgentMd::parse_new(&with("password: hunter2222")).unwrap_err().to_string(),
        "line 4 has what looks like a password: the document is public and must not contain secrets"
    );
    let signed = format!("{FRONT}{}", BLOCK.replace("AAAA", "AKIAQ3EGPXAKZT4WJ2MD"));
    AgentMd::parse_new(&signed).expect("a signature is no secret");
}

#[test]
fn broken_blocks_are_named() {
    for (from, to) in
        [("AAAA", "%%"), ("timestamp: 7", "timestamp: x"), ("sha256:ab", "sha256:ab\nmore: 1"), ("-->", "")]
    {
        assert!(
            refused(&format!("{FRONT}{}", BLOCK.replace(from, to))).starts_with("signature block 1"),
            "{to}"
        );
    }
    assert!(refused(&format!("{FRONT}{BLOCK}\ntext")).contains("block 2"));
}

#[test]
fn old_clients_get_one_plain_block() {
    let tagged =
        BLOCK.replace("SIGNATURE", "SIGNATURE-OWNER").replace("timestamp", "signer_aid: bob\ntimestamp");
    let text = format!("{FRONT}{tagged}\n{tagged}");
    assert_eq!(AgentMd::single_signature_form(&text), format!("{FRONT}{BLOCK}"));
    assert_eq!(AgentMd::single_signature_form(FRONT), FRONT);
}

/// What is read lies in the text: the body before the blocks, and the blocks in order.
fn lies_in_its_text(text: &str) {
    let _ = AgentMd::single_signature_form(text);
    let Ok(document) = AgentMd::parse(text) else { return };
    let body = text.get(document.body.clone()).expect("the body lies in the text");
    assert!(text[..document.body.start].trim_end().ends_with("---") && !body.contains(BLOCK));
    let mut end = document.body.end;
    for block in &document.blocks {
        assert!(end <= block.start && block.start < block.end && block.end <= text.len());
        end = block.end;
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn any_text_is_read_or_refused(text in "(---\r?\n)?\\PC{0,200}(<!-- AUN-SIGNATURE\\PC{0,60}-->)?") {
        lies_in_its_text(&text);
    }

    #[test]
    fn any_front_matter_and_body_are_read_or_refused(
        line in "[a-z]{0,3}: ?[\\[{\\-!&*|>\"'#%@`?,:~a-z0-9 \n]{0,40}",
        body in "[\\-<!>a-z# \r\n\u{4f60}]{0,80}",
        end in prop::sample::select(vec!["\n", "\r\n"]),
        signed: bool,
    ) {
        let block = if signed { BLOCK } else { "" };
        let text = format!("---\naid: alice.aid.pub\nname: a\ntype: b\n{line}\n---\n{body}{block}");
        lies_in_its_text(&text.replace('\n', end));
    }
}
