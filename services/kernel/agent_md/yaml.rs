//! What the protocol forbids in the YAML of the front matter: tags, anchors, aliases, directives and further documents.
//!
//! The events of the parser tell them from the same characters inside quoted and plain texts, as in `Hello !important`.

use serde_saphyr::granit_parser::{self, Event, Parser};

/// How deep sequences and mappings may be nested.
const DEPTH: usize = 8;

/// Reads the YAML once and keeps nothing of it: a document whose aliases would multiply is refused at its first anchor.
pub(super) fn check(yaml: &str) -> Result<(), String> {
    let options = granit_parser::options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        emit_comments: false,
        flow_nesting_limit: DEPTH,
        block_nesting_limit: DEPTH,
    };
    let (mut documents, mut nodes) = (0, 0);
    for next in Parser::new_from_str_with_options(yaml, options) {
        let (event, span) =
            next.map_err(|error| format!("line {}: {}", error.marker().line(), error.info()))?;
        let line = span.tag_start().unwrap_or(span.start).line();
        let refused = |what: &str| Err(format!("line {line}: YAML {what} are refused"));
        documents += usize::from(matches!(event, Event::DocumentStart(..)));
        nodes += usize::from(event.is_node());
        if event.tag().is_some() {
            return refused("tags");
        }
        if event.anchor_id().is_some() {
            return refused("anchors");
        }
        if event.is_alias() {
            return refused("aliases");
        }
        if documents > 1 {
            return Err(format!("line {line}: it must be one YAML document"));
        }
        if nodes == 1 && event.is_node() && !matches!(event, Event::MappingStart(..)) {
            return Err("it must be a mapping, with lines such as name: alice".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    fn refused(lines: &str) -> String {
        check(&format!("---\nname: alice\n{lines}\n")).unwrap_err()
    }

    #[test]
    fn tags_are_refused_wherever_they_stand() {
        for line in [
            "description: !!str x",
            "description: ! x",
            "description: !local x",
            "description: !<tag:example.com,2000:x> x",
            "description: !!str \"x\"",
            "description: !!str",
            "tags: [!!str x]",
            "tags: [x, !y z]",
            "tags: !!seq [x]",
            "tags: {a: !b c}",
            "skills: {!k a: b}",
            "!!str skills: x",
            "? !!str skills\n: x",
            "skills:\n  - !!str x",
            "skills:\n- !x\n  name: y",
            "skills:\n  - - !x y",
            "provider:\n  name:\n    !x y",
            "provider:\n  !!map {a: b}",
            "note: !!str |\n  text",
        ] {
            assert!(refused(line).contains("YAML tags are refused"), "{line}: {}", refused(line));
        }
    }

    #[test]
    fn an_exclamation_mark_in_a_text_is_no_tag() {
        for line in [
            "description: \"Hi! there\"",
            "description: '!!str x'",
            "description: \"!important\"",
            "description: Hello !important",
            "description: Hello\n  !important",
            "description: |\n  !!str x\n  - !y z",
            "description: >-\n  ! x",
            "# !!str\ndescription: x # !y",
            "tags: [\"!x\", a!, a !b]",
            "wow!: x",
            "skills:\n  - Hello !important",
        ] {
            assert_eq!(check(&format!("---\nname: alice\n{line}\n")), Ok(()), "{line}");
        }
    }

    #[test]
    fn anchors_and_aliases_are_refused_and_their_characters_in_texts_are_not() {
        assert_eq!(refused("tags: &a [x]"), "line 3: YAML anchors are refused");
        assert_eq!(refused("tags: [&a x]"), "line 3: YAML anchors are refused");
        assert_eq!(refused("tags:\n- x\n- *a"), "line 5: YAML aliases are refused");
        assert_eq!(refused("*a : x"), "line 3: YAML aliases are refused");
        assert_eq!(check("---\nname: \"*a\"\ndescription: R&D & more *bold* x\n"), Ok(()));
    }

    #[test]
    fn an_alias_bomb_is_refused_at_its_first_anchor() {
        let levels: Vec<String> =
            (1..9).map(|n| format!("l{n}: &l{n} [{}]", vec![format!("*l{}", n - 1); 9].join(", "))).collect();
        let bomb = format!("---\nl0: &l0 lol\n{}\n", levels.join("\n"));
        assert_eq!(check(&bomb), Err("line 2: YAML anchors are refused".to_owned()));
        let deep = format!("---\na: {}\n", "[".repeat(4000));
        assert!(check(&deep).is_err());
    }

    #[test]
    fn directives_further_documents_and_other_roots_are_refused() {
        assert!(check("---\n- a\n- b\n").unwrap_err().contains("mapping"));
        assert!(check("---\njust a text\n").unwrap_err().contains("mapping"));
        assert!(check("---\n").unwrap_err().contains("mapping"));
        assert!(check("---\na: b\n--- \nc: d\n").unwrap_err().contains("one YAML document"));
        assert!(check("---\na: b\n...\n%TAG ! tag:x,2000:\n---\nc: d\n").is_err());
    }
}
