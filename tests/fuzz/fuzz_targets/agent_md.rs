//! An agent.md: read or refused; what is read keeps its blocks inside the text and in order.
#![no_main]

use libfuzzer_sys::fuzz_target;
use services::pure::AgentMd;

fuzz_target!(|text: &str| {
    let single = AgentMd::single_signature_form(text);
    assert!(single.len() <= text.len() + 32);
    for candidate in [text.to_owned(), format!("---\naid: a\nname: b\ntype: c\nversion: 1.0.0\n---\n{text}")] {
        let Ok(document) = AgentMd::parse(&candidate) else { continue };
        let mut end = 0;
        for block in &document.blocks {
            assert!(end <= block.start && block.start < block.end && block.end <= candidate.len());
            end = block.end;
        }
    }
});
