//! An agent.md: read or refused; what is read keeps its body and its blocks inside the text and in order.
#![no_main]

#[expect(dead_code, unused_imports, reason = "the server uses more of it")]
#[path = "../../../services/kernel/agent_md/mod.rs"]
mod agent_md;

use agent_md::AgentMd;
use libfuzzer_sys::fuzz_target;

const FRONT: &str = "---\naid: a\nname: b\ntype: c\nversion: 1.0.0\n";

fuzz_target!(|text: &str| {
    let single = AgentMd::single_signature_form(text);
    assert!(single.len() <= text.len() + 32);
    // As it is, as the body of a document, and as a part of its front matter.
    for candidate in [text.to_owned(), format!("{FRONT}---\n{text}"), format!("{FRONT}{text}\n---\nbody")] {
        let Ok(document) = AgentMd::parse(&candidate) else { continue };
        assert!(candidate.get(document.body.clone()).is_some());
        assert!(!document.front.name.trim().is_empty() && document.front.tags.len() <= 16);
        let mut end = document.body.end;
        for block in &document.blocks {
            assert!(end <= block.start && block.start < block.end && block.end <= candidate.len());
            end = block.end;
        }
    }
});
