//! The files of the page, inside this program: it loads nothing from anywhere else.

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, type and text.
const FILES: [(&str, &str, &str); 16] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/api.js", JAVASCRIPT, include_str!("page/api.js")),
    ("/composer.js", JAVASCRIPT, include_str!("page/composer.js")),
    ("/dom.js", JAVASCRIPT, include_str!("page/dom.js")),
    ("/exchange.js", JAVASCRIPT, include_str!("page/exchange.js")),
    ("/history.js", JAVASCRIPT, include_str!("page/history.js")),
    ("/main.js", JAVASCRIPT, include_str!("page/main.js")),
    ("/pictures.js", JAVASCRIPT, include_str!("page/pictures.js")),
    ("/question.js", JAVASCRIPT, include_str!("page/question.js")),
    ("/run.js", JAVASCRIPT, include_str!("page/run.js")),
    ("/scroll.js", JAVASCRIPT, include_str!("page/scroll.js")),
    ("/sse.js", JAVASCRIPT, include_str!("page/sse.js")),
    ("/turn.js", JAVASCRIPT, include_str!("page/turn.js")),
    ("/ui_schema.js", JAVASCRIPT, include_str!("page/ui_schema.js")),
];

/// Type and text of the file at this path.
pub(super) fn file(path: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().find(|(known, ..)| *known == path).map(|(_, kind, text)| (*kind, *text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_file_of_the_page_is_served_and_names_only_files_that_are() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/demo/web/page");
        let there = fs::read_dir(folder).unwrap().count();
        assert_eq!(there, FILES.len());
        for (path, _, text) in FILES {
            let imports =
                text.lines().filter_map(|line| line.split_once(" from \"./")?.1.strip_suffix("\";"));
            for import in imports {
                assert!(file(&format!("/{import}")).is_some(), "{path} imports {import}");
            }
        }
    }

    #[test]
    fn the_page_has_nothing_that_its_policy_forbids() {
        for (path, _, text) in FILES {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                " style=",
                "https://",
            ] {
                assert!(!text.contains(word), "{path} has {word}");
            }
        }
    }
}
