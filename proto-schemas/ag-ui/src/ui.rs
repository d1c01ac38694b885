//! What a back end asks to be shown with its answer, as the document that front ends render.

use serde_json::{Map, Value, json};

const VERSION: &str = "2.0";
const STATUSES: &[&str] = &["info", "success", "warning", "error", "pending"];
const THEMES: &[&str] = &["default", "light", "dark"];
const TEXT_ROLES: &[&str] = &["title", "subtitle", "body", "caption", "code"];
const TEXT_FORMATS: &[&str] = &["plain", "markdown"];
const ICON_SOURCES: &[&str] = &["icon", "emoji", "url"];
const BUTTON_STYLES: &[&str] = &["primary", "secondary", "ghost", "danger"];

/// So many bytes a document may have as JSON: each of its readers gets it twice, in an event and with the message.
const MOST_UI_BYTES: usize = 65_536;

/// So many nodes may lie in each other, the root among them.
const MOST_UI_DEPTH: usize = 16;

/// The `ui_schema` of `ui_hints`: a card with a title, a badge, a text and buttons, in that order. Hints that are a `ui_schema`
/// already are checked and passed. Anything else is nothing: an answer is not lost because its decoration is wrong.
pub fn compile_ui(hints: &Value) -> Option<Value> {
    let hints = hints.as_object()?;
    let document = if hints.contains_key("version") || hints.contains_key("root") {
        is_ui_schema(hints).then(|| Value::Object(hints.clone()))?
    } else {
        card(hints)?
    };
    (document.to_string().len() <= MOST_UI_BYTES).then_some(document)
}

fn card(hints: &Map<String, Value>) -> Option<Value> {
    let status = one_of(hints, "status", STATUSES, "info")?;
    let theme = one_of(hints, "theme", THEMES, "default")?;
    let locale = optional_text(hints, "locale")?.unwrap_or("en");

    let mut children = Vec::new();
    if let Some(title) = optional_text(hints, "title")? {
        children.push(json!({ "type": "text", "content": title, "role": "title" }));
    }
    if let Some(badge) = given(hints, "badge") {
        children.push(badge_node(badge, status)?);
    }
    if let Some(body) = optional_text(hints, "body")? {
        children.push(json!({ "type": "text", "content": body, "role": "body" }));
    }
    if let Some(actions) = given(hints, "actions") {
        for action in actions.as_array()? {
            children.push(button_node(action)?);
        }
    }
    if children.is_empty() {
        return None;
    }
    let root = json!({ "type": "stack", "appearance": "card", "children": children });
    Some(json!({ "version": VERSION, "locale": locale, "status": status, "theme": theme, "root": root }))
}

/// A badge is its label, or an object that may have a status other than that of the card.
fn badge_node(badge: &Value, status: &str) -> Option<Value> {
    if let Some(label) = badge.as_str() {
        return Some(json!({ "type": "badge", "label": label, "status": status }));
    }
    let badge = badge.as_object()?;
    let label = badge.get("label")?.as_str()?;
    Some(json!({ "type": "badge", "label": label, "status": one_of(badge, "status", STATUSES, status)? }))
}

/// What else an action says, such as what it does, is for the front end.
fn button_node(action: &Value) -> Option<Value> {
    let mut button = action.as_object()?.clone();
    let style = one_of(&button, "style", BUTTON_STYLES, "primary")?.to_owned();
    button.insert("type".to_owned(), "button".into());
    button.insert("style".to_owned(), style.into());
    is_leaf(&button, "button").then_some(Value::Object(button))
}

fn is_ui_schema(document: &Map<String, Value>) -> bool {
    let text = |name| document.get(name).and_then(Value::as_str);
    text("version") == Some(VERSION)
        && text("locale").is_some()
        && text("status").is_some_and(|status| STATUSES.contains(&status))
        && text("theme").is_some_and(|theme| THEMES.contains(&theme))
        && given(document, "meta").is_none_or(Value::is_object)
        && document.get("root").is_some_and(|root| is_layout(root) && is_node(root, MOST_UI_DEPTH))
}

fn is_layout(node: &Value) -> bool {
    matches!(node.get("type").and_then(Value::as_str), Some("stack" | "grid"))
}

/// Whether this is a node with at most this many levels.
fn is_node(node: &Value, levels: usize) -> bool {
    let Some(members) = node.as_object().filter(|_| levels > 0) else { return false };
    if is_layout(node) {
        let children = members.get("children").and_then(Value::as_array);
        return children.is_some_and(|children| children.iter().all(|child| is_node(child, levels - 1)));
    }
    let kind = members.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| is_leaf(members, kind))
}

fn is_leaf(members: &Map<String, Value>, kind: &str) -> bool {
    let has_text = |name| members.get(name).is_some_and(Value::is_string);
    let may_have = |name, words| one_of(members, name, words, "").is_some();
    match kind {
        "text" => has_text("content") && may_have("role", TEXT_ROLES) && may_have("format", TEXT_FORMATS),
        "icon" => may_have("source", ICON_SOURCES),
        "badge" => has_text("label") && may_have("status", STATUSES),
        "button" => has_text("label") && may_have("style", BUTTON_STYLES),
        _ => false,
    }
}

/// A member that is there and not null.
fn given<'v>(members: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    members.get(name).filter(|value| !value.is_null())
}

/// The text of a member, if it is there; nothing at all where it is something else.
fn optional_text<'v>(members: &'v Map<String, Value>, name: &str) -> Option<Option<&'v str>> {
    given(members, name).map_or(Some(None), |value| value.as_str().map(Some))
}

/// One of these words, or the default where the member is absent; nothing where it is something else.
fn one_of<'v>(
    members: &'v Map<String, Value>,
    name: &str,
    words: &[&str],
    default: &'v str,
) -> Option<&'v str> {
    let word = optional_text(members, name)?;
    word.map_or(Some(default), |word| words.contains(&word).then_some(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The `ui_schema` in the seed's example of a history.
    fn example() -> Value {
        json!({
            "version": "2.0", "locale": "zh-CN", "status": "success", "theme": "default",
            "root": { "type": "stack", "appearance": "card", "children": [
                { "type": "text", "content": "日程已创建", "role": "title" },
                { "type": "badge", "label": "SUCCESS", "status": "success" },
                { "type": "text", "content": "您的会议日程创建成功", "role": "body" },
            ] },
        })
    }

    #[test]
    fn hints_become_the_example() {
        let hints = json!({
            "status": "success", "locale": "zh-CN",
            "title": "日程已创建", "badge": "SUCCESS", "body": "您的会议日程创建成功",
        });
        assert_eq!(compile_ui(&hints), Some(example()));
        assert_eq!(compile_ui(&example()), Some(example()), "what is compiled is passed");
    }

    #[test]
    fn what_is_absent_has_a_default_and_the_order_is_fixed() {
        let hints = json!({
            "actions": [{ "label": "Open", "url": "https://x" }, { "label": "No", "style": "danger", "type": "text" }],
            "badge": { "label": "late", "status": "warning" }, "body": "b", "title": null, "other": 1,
        });
        let expected = json!({
            "version": "2.0", "locale": "en", "status": "info", "theme": "default",
            "root": { "type": "stack", "appearance": "card", "children": [
                { "type": "badge", "label": "late", "status": "warning" },
                { "type": "text", "content": "b", "role": "body" },
                { "type": "button", "label": "Open", "style": "primary", "url": "https://x" },
                { "type": "button", "label": "No", "style": "danger" },
            ] },
        });
        assert_eq!(compile_ui(&hints), Some(expected));
    }

    #[test]
    fn hints_that_are_wrong_are_nothing() {
        for hints in [
            json!(null),
            json!("title"),
            json!([]),
            json!({}),
            json!({ "status": "success" }),
            json!({ "status": "fine", "title": "t" }),
            json!({ "status": 1, "title": "t" }),
            json!({ "theme": "blue", "title": "t" }),
            json!({ "locale": 7, "title": "t" }),
            json!({ "title": 7 }),
            json!({ "title": "t", "badge": { "status": "info" } }),
            json!({ "title": "t", "badge": { "label": "l", "status": "fine" } }),
            json!({ "title": "t", "actions": {} }),
            json!({ "title": "t", "actions": [{ "style": "primary" }] }),
            json!({ "title": "t", "actions": [{ "label": "l", "style": "big" }] }),
        ] {
            assert_eq!(compile_ui(&hints), None, "{hints}");
        }
    }

    #[test]
    fn documents_are_checked() {
        let breakages = [
            ("/version", json!("1.0")),
            ("/version", json!(2.0)),
            ("/locale", json!(null)),
            ("/status", json!("fine")),
            ("/theme", json!("blue")),
            ("/root", json!({ "type": "text", "content": "c" })),
            ("/root", json!({ "type": "stack" })),
            ("/root/children", json!({})),
            ("/root/children/0", json!("text")),
            ("/root/children/0/type", json!("video")),
            ("/root/children/0/role", json!("heading")),
            ("/root/children/0/content", json!(1)),
            ("/root/children/1/status", json!("fine")),
            ("/root/children/2", json!({ "type": "icon", "source": "file" })),
            ("/root/children/2", json!({ "type": "button", "label": "l", "style": "big" })),
            ("/root/children/2", json!({ "type": "text", "content": "c", "format": "html" })),
            ("/root/children/2", json!({ "type": "grid", "children": [1] })),
        ];
        for (path, value) in breakages {
            let mut document = example();
            *document.pointer_mut(path).unwrap() = value.clone();
            assert_eq!(compile_ui(&document), None, "{path} {value}");
        }
        let mut document = example();
        document["meta"] = json!("m");
        assert_eq!(compile_ui(&document), None);
        document["meta"] = json!({ "toolId": "t" });
        document["root"]["children"][2] = json!({ "type": "grid", "columns": 2, "children": [] });
        assert_eq!(compile_ui(&document), Some(document));
    }

    #[test]
    fn depth_and_size_are_limited() {
        let nested = |levels: usize| {
            let stack = |inner| json!({ "type": "stack", "children": [inner] });
            let leaf = json!({ "type": "text", "content": "c" });
            let mut document = example();
            document["root"] = (1..levels).fold(leaf, |inner, _| stack(inner));
            document
        };
        assert!(compile_ui(&nested(16)).is_some());
        assert_eq!(compile_ui(&nested(17)), None);

        let with_body = |length| compile_ui(&json!({ "body": "x".repeat(length) }));
        let around = with_body(0).unwrap().to_string().len();
        assert_eq!(with_body(MOST_UI_BYTES - around).unwrap().to_string().len(), MOST_UI_BYTES);
        assert_eq!(with_body(MOST_UI_BYTES - around + 1), None);
    }
}
