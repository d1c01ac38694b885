//! The plain text of documents: of their Markdown, and of their lists of skills.

use pulldown_cmark::{Event, Options, Parser, TagEnd};
use serde_json::Value;

/// What a reader sees of a Markdown text, without its marks, addresses of links, HTML and comments.
pub fn markdown_text(markdown: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut text = String::with_capacity(markdown.len());
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Text(part) | Event::Code(part) => text.push_str(&part),
            Event::SoftBreak | Event::HardBreak | Event::Rule => text.push('\n'),
            // Emphasis may end within a word; everything else ends a word.
            Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link) => {}
            Event::End(_) => text.push('\n'),
            _ => {}
        }
    }
    text
}

/// The words of `skills`: a list of names, a list of mappings, or a mapping from names to anything. Of mappings the values
/// are read, and the keys only where they are names of skills.
pub fn skills_text(skills: &Value) -> String {
    let mut text = String::new();
    if let Value::Object(named) = skills {
        for name in named.keys() {
            text.push_str(name);
            text.push('\n');
        }
    }
    push_texts(skills, &mut text);
    text
}

fn push_texts(value: &Value, text: &mut String) {
    match value {
        Value::String(part) => {
            text.push_str(part);
            text.push('\n');
        }
        Value::Array(parts) => parts.iter().for_each(|part| push_texts(part, text)),
        Value::Object(members) => members.values().for_each(|part| push_texts(part, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::terms;
    use super::*;
    use serde_json::json;

    /// The words of a text as they are written.
    fn words(text: &str) -> String {
        let written = terms(text).into_iter().filter_map(|term| term.strip_prefix('w').map(str::to_owned));
        written.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn markdown_is_what_a_reader_sees() {
        let markdown = "# Code *re*viewer\n\nReads [pull requests](https://example.org/secret) in `Rust`,\nnot <b>all</b>.\n\n\
                        - [x] one\n- two\n\n| a | b |\n|---|---|\n| c1 | d1 |\n\n```sh\ncargo test\n```\n\
                        <!-- hidden -->\n<div>hidden</div>\n\n![a picture](file.png)\n";
        let expected =
            "code reviewer reads pull requests in rust not all one two a b c1 d1 cargo test a picture";
        assert_eq!(words(&markdown_text(markdown)), expected);
    }

    #[test]
    fn skills_are_texts_however_they_are_written() {
        let words = |skills: Value| words(&skills_text(&skills));
        assert_eq!(words(json!(["Code review", "翻译"])), "code review 翻译");
        assert_eq!(
            words(json!([{ "id": "r1", "name": "Review", "tags": ["rust", 3, true, null] }])),
            "r1 review rust"
        );
        assert_eq!(words(json!({ "translate": { "description": "to French" } })), "translate to french");
        assert_eq!(words(json!("one")), "one");
        assert_eq!(words(Value::Null), "");
    }
}
