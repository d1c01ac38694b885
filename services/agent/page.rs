//! The page of an agent: its document, readable in a browser.
//!
//! Everything in it was written by somebody else, so everything is escaped, nothing is loaded, and the policy that is sent
//! with it forbids what an oversight would let through.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel::agent_md::{AgentMd, FrontMatter};
use kernel::{Aid, sha256};
use pulldown_cmark::{Alignment, Event, LinkType, Options, Parser, Tag, TagEnd, html::push_html};
use std::sync::LazyLock;

const STYLE: &str = "body{max-width:44rem;margin:2rem auto;padding:0 1rem;font:1rem/1.6 system-ui,sans-serif;\
    color:#222;background:#fff;overflow-wrap:anywhere}\
    dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:1rem 0}\
    dt{color:#666}dd{margin:0}header{border-bottom:1px solid #ccc}footer{border-top:1px solid #ccc}\
    pre{overflow:auto;padding:.6rem;background:#f4f4f4}td,th{border:1px solid #ccc;padding:.2rem .5rem}\
    blockquote{margin-left:0;padding-left:1rem;border-left:3px solid #ccc}\
    @media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}a{color:#8bf}pre{background:#252525}}";

/// Only the one style of the page may be used, and nothing else at all.
pub(super) fn content_security_policy() -> &'static str {
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        let hash = STANDARD.encode(sha256(STYLE));
        format!(
            "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        )
    });
    &POLICY
}

pub(super) fn html(aid: &Aid, content: &str) -> String {
    let (name, facts, body) = match AgentMd::parse(content) {
        Ok(document) => {
            let body = markdown(&content[document.body.clone()]);
            (document.front.name.clone(), facts(aid, &document.front), body)
        }
        // It was stored when less was refused.
        Err(_) => (aid.to_string(), String::new(), format!("<pre>{}</pre>\n", escaped(content))),
    };
    let name = escaped(&name);
    format!(
        "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1 dir=\"auto\">{name}</h1>\n{facts}</header>\n<main dir=\"auto\">\n{body}</main>\n\
         <footer>\n<p><a href=\"/agent.md\">agent.md</a></p>\n</footer>\n</body>\n</html>\n"
    )
}

fn facts(aid: &Aid, front: &FrontMatter) -> String {
    let description = front.description.as_deref();
    let description = description.map(|text| format!("<p dir=\"auto\">{}</p>\n", escaped(text)));
    let tags = (!front.tags.is_empty()).then(|| front.tags.join(", "));
    let facts = [
        ("AID", Some(aid.as_str())),
        ("type", Some(&front.kind)),
        ("version", front.version.as_deref()),
        ("tags", tags.as_deref()),
    ];
    let facts = facts.into_iter().filter_map(|(name, value)| {
        Some(format!("<dt>{name}</dt><dd dir=\"auto\">{}</dd>\n", escaped(value?)))
    });
    format!("{}<dl>\n{}</dl>\n", description.unwrap_or_default(), facts.collect::<String>())
}

fn markdown(text: &str) -> String {
    let mut open_links = Vec::new();
    let parser = Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH);
    let mut html = String::with_capacity(2 * text.len());
    push_html(&mut html, parser.filter_map(|event| harmless(event, &mut open_links)));
    html
}

/// HTML becomes the text that it is, an image its description, and a link to anything but the web and mail only its text.
fn harmless<'a>(event: Event<'a>, open_links: &mut Vec<bool>) -> Option<Event<'a>> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::HtmlBlock) => Some(Event::Start(Tag::Paragraph)),
        Event::End(TagEnd::HtmlBlock) => Some(Event::End(TagEnd::Paragraph)),
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
        Event::Start(Tag::Link { link_type, dest_url, .. }) => {
            let target = target(link_type, &dest_url);
            open_links.push(target.is_some());
            let target = escaped(&target?);
            let link = format!("<a href=\"{target}\" rel=\"nofollow noopener noreferrer\">");
            Some(Event::InlineHtml(link.into()))
        }
        Event::End(TagEnd::Link) => {
            open_links.pop().unwrap_or(false).then(|| Event::InlineHtml("</a>".into()))
        }
        // Alignment would be a style attribute, which the policy refuses.
        Event::Start(Tag::Table(columns)) => {
            Some(Event::Start(Tag::Table(vec![Alignment::None; columns.len()])))
        }
        other => Some(other),
    }
}

/// Where a link leads, if a page may lead there.
fn target(link_type: LinkType, url: &str) -> Option<String> {
    let url = match link_type {
        LinkType::Email => format!("mailto:{url}"),
        _ => url.to_owned(),
    };
    let begins = |scheme: &str| url.get(..scheme.len()).is_some_and(|text| text.eq_ignore_ascii_case(scheme));
    ["http://", "https://", "mailto:"].into_iter().any(begins).then_some(url)
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for next in text.chars() {
        match next {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testing::cases;

    const SCRIPT: &str = "<script>alert(1)</script>";

    fn page(front: &str, body: &str) -> String {
        let text = format!("---\naid: alice.aid.pub\n{front}\n---\n{body}");
        html(&Aid::parse("alice.aid.pub").unwrap(), &text)
    }

    fn body_of(body: &str) -> String {
        let page = page("name: a\ntype: b", body);
        let (_, rest) = page.split_once("<main dir=\"auto\">\n").unwrap();
        rest.split_once("</main>").unwrap().0.to_owned()
    }

    /// The tags of a page, each with its attributes.
    fn tags(page: &str) -> Vec<&str> {
        page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()).collect()
    }

    #[test]
    fn a_page_shows_the_facts_and_the_text() {
        let page = page(
            "name: Alice\ntype: agent\nversion: 1.0.0\ndescription: Reads & writes\ntags: [coding, review]",
            "# Hello\n\n*you*, see <https://example.com/?a=1&b=2> | [mail](mailto:a@b.example) or <a@b.example>\n\n| a |\n|:-:|\n| ~~b~~ |\n",
        );
        for part in [
            "<title>Alice</title>",
            "<h1 dir=\"auto\">Alice</h1>",
            "<p dir=\"auto\">Reads &amp; writes</p>",
            "<dt>AID</dt><dd dir=\"auto\">alice.aid.pub</dd>",
            "<dt>version</dt><dd dir=\"auto\">1.0.0</dd>",
            "<dt>tags</dt><dd dir=\"auto\">coding, review</dd>",
            "<h1>Hello</h1>",
            "<em>you</em>",
            "<a href=\"https://example.com/?a=1&amp;b=2\" rel=\"nofollow noopener noreferrer\">",
            "<a href=\"mailto:a@b.example\" rel=\"nofollow noopener noreferrer\">mail</a>",
            "<td><del>b</del></td>",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert_eq!(page.matches("mailto:a@b.example").count(), 2);
        assert!(!page.contains("style="));
        assert!(!page.contains("<!-- AUN"));
    }

    #[test]
    fn the_policy_has_the_hash_of_the_style() {
        let page = page("name: a\ntype: b", "");
        let style = page.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
        let hash = STANDARD.encode(sha256(style));
        assert!(content_security_policy().contains(&format!("style-src 'sha256-{hash}';")));
    }

    #[test]
    fn a_script_in_any_field_is_text() {
        let plain = tags(&page("name: a\ntype: b\nversion: 1.0.0\ndescription: c\ntags: [d]", "e")).len();
        for attack in
            [SCRIPT, "\\\"><img src=x onerror=alert(1)>", "</title></style></h1>", "'><svg/onload=x>"]
        {
            let fields = format!(
                "name: \"{attack}\"\ntype: \"{attack}\"\nversion: 1.0.0\ndescription: \"{attack}\"\ntags: [\"{attack}\"]"
            );
            let page = page(&fields, "e");
            assert!(page.contains("<dt>tags</dt>"), "it was read: {page}");
            assert_eq!(tags(&page).len(), plain, "{page}");
        }
    }

    #[test]
    fn html_in_the_text_is_shown_and_not_done() {
        assert_eq!(body_of(SCRIPT), "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n");
        for attack in [
            "a <b onclick=x>b</b>",
            "<iframe src=\"https://example.com\"></iframe>",
            "<style>body{}</style>",
            "<!-- comment -->",
            "<svg><script>x</script></svg>",
            "```\n<script>\n```",
            "``` \"><script>\nx\n```",
            "`<script>`",
            "&lt;script&gt;",
            "\\<script>",
            "# <script>",
            "<form action=\"https://example.com\"><input></form>",
        ] {
            let body = body_of(attack);
            let known = |tag: &&str| {
                let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
                ["p", "pre", "code", "h1"].contains(&name)
            };
            assert!(tags(&body).iter().all(known), "{attack}: {body}");
        }
    }

    #[test]
    fn links_lead_to_the_web_and_to_mail_only() {
        for bad in [
            "[x](javascript:alert(1))",
            "[x](JavaScript:alert(1))",
            "[x](<java\tscript:alert(1)>)",
            "[x](&#106;avascript:alert(1))",
            "<javascript:alert(1)>",
            "[x](data:text/html,<script>)",
            "[x](vbscript:x)",
            "[x](//example.com)",
            "[x](/agent.md)",
            "[x](https:example.com)",
            "[x]: javascript:alert(1)\n\n[x]",
        ] {
            assert!(!body_of(bad).contains("<a"), "{bad}: {}", body_of(bad));
        }
        let quoted = body_of("[x](<https://example.com/\"onclick=\"y>)");
        assert!(quoted.contains("href=\"https://example.com/&quot;onclick=&quot;y\" rel="), "{quoted}");
        assert!(!body_of("[x](https://example.com \"title\")").contains("title"));
    }

    #[test]
    fn images_are_their_descriptions() {
        assert_eq!(body_of("![a *cat*](https://example.com/cat.png)"), "<p>a <em>cat</em></p>\n");
        let linked = body_of("[![a cat](x.png)](https://example.com)");
        assert!(!linked.contains("img") && linked.contains(">a cat</a>"), "{linked}");
    }

    #[test]
    fn a_document_of_another_time_is_shown_as_it_is() {
        let page = html(&Aid::parse("alice.aid.pub").unwrap(), &format!("no front matter {SCRIPT}"));
        assert!(page.contains("<pre>no front matter &lt;script&gt;"), "{page}");
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn nothing_but_known_elements_comes_out_of_any_text(body in "[\\[\\]()<>!`*#|:/\\-\"'=&;a-z \n]{0,120}") {
            const KNOWN: [&str; 25] = [
                "p", "h1", "h2", "h3", "h4", "h5", "h6", "a", "em", "strong", "del", "code", "pre", "ul", "ol", "li", "hr",
                "br", "blockquote", "table", "thead", "tbody", "tr", "th", "td",
            ];
            let body = markdown(&body);
            for tag in tags(&body) {
                let mut words = tag.trim_start_matches('/').split([' ', '\n']);
                let name = words.next().unwrap_or_default();
                prop_assert!(KNOWN.contains(&name), "{tag} in {body}");
                let attribute = |word: &str| ["", "/", "href", "rel", "class", "start"].contains(&word.split('=').next().unwrap());
                prop_assert!(name == "a" || words.all(attribute), "{tag} in {body}");
            }
        }
    }
}
