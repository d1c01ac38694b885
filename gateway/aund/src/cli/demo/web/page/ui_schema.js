// Documents of the agent (`ui_schema` 2.0) as elements of this page. They choose from what is here: no HTML, no URL, no style of
// their own.

import { element, icon } from "./dom.js";

// The server allows 16 levels.
const DEPTH = 16;
const NODES = 500;
const COLUMNS = 4;

const STATUS = new Set(["info", "success", "warning", "error", "pending"]);
const STYLES = { primary: "primary", secondary: "plain", ghost: "quiet", danger: "danger" };
const TEXT_TAGS = { title: "h2", subtitle: "h3", body: "p", caption: "p", code: "pre" };
const ICONS = new Set([...STATUS, "calendar"]);

// The element of a document, or nothing where it has another form.
export function renderUi(document, say) {
    if (document?.version !== "2.0") return null;
    const root = new UiRenderer(say).node(document.root, 1);
    if (!root) return null;
    const theme = ["light", "dark"].includes(document.theme) ? document.theme : null;
    return element("section", {
        class: "ui", "aria-label": "Document of the agent", lang: language(document.locale),
        "data-status": status(document.status), "data-theme": theme,
    }, root);
}

class UiRenderer {
    constructor(say) {
        this.say = say;
        this.left = NODES;
    }

    node(node, depth) {
        this.left -= 1;
        if (typeof node !== "object" || node === null || depth > DEPTH || this.left < 0) return null;
        switch (node.type) {
            case "stack": return this.stack(node, depth);
            case "grid": return this.grid(node, depth);
            case "text": return this.text(node);
            case "badge": return this.badge(node);
            case "button": return this.button(node);
            case "icon": return this.icon(node);
            // A node of a later version: what is inside it is still shown.
            default: return Array.isArray(node.children) ? this.stack(node, depth) : null;
        }
    }

    children({ children }, depth) {
        const all = Array.isArray(children) ? children : [];
        return all.map(child => this.node(child, depth + 1)).filter(child => child);
    }

    stack(node, depth) {
        const across = ["row", "horizontal"].includes(node.direction ?? node.orientation);
        return element("div", {
            class: "ui-stack", "data-direction": across ? "row" : null, "data-card": node.appearance === "card",
        }, ...this.children(node, depth));
    }

    grid(node, depth) {
        const columns = Math.min(COLUMNS, Math.max(1, Math.trunc(Number(node.columns)) || 2));
        return element("div", {
            class: "ui-grid", "data-columns": columns, "data-card": node.appearance === "card",
        }, ...this.children(node, depth));
    }

    text({ content, role }) {
        const tag = TEXT_TAGS[role] ?? "p";
        return element(tag, { class: `ui-text ui-${role in TEXT_TAGS ? role : "body"}` }, text(content));
    }

    badge(node) {
        return element("p", { class: "ui-badge", "data-status": status(node.status) }, text(node.label));
    }

    // A press says the label, as if it was typed: the reader sees what is sent.
    button({ label, style, disabled }) {
        const kind = STYLES[style] ?? "plain";
        return element("button", {
            type: "button", class: kind, disabled: disabled === true, onclick: () => this.say(text(label)),
        }, text(label));
    }

    // Icons by URL are not loaded: this page speaks to its own origin only.
    icon({ source, name, value, icon: named, emoji, label }) {
        const meant = text(value ?? name ?? named ?? emoji);
        if (source === "emoji") return element("span", { class: "ui-emoji", role: "img", "aria-label": text(label) || meant }, meant);
        if (source === "icon" && ICONS.has(meant)) return element("span", { class: "ui-icon" }, icon(meant));
        return label ? element("span", { class: "ui-text ui-caption" }, text(label)) : null;
    }
}

const text = value => (["string", "number"].includes(typeof value) ? String(value) : "");
const status = value => (STATUS.has(value) ? value : null);

function language(locale) {
    return /^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$/.test(locale ?? "") ? locale : null;
}
