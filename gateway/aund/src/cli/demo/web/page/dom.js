// Elements of the page. What others wrote becomes text nodes only: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

// An element with attributes, listeners (`onclick`) and children; a string among the children is text.
export function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (value === false || value == null) continue;
        if (typeof value === "function") made.addEventListener(name.slice(2), value);
        else made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter(child => child != null));
    return made;
}

// An icon of the sprite in index.html.
export function icon(name) {
    const made = document.createElementNS(SVG, "svg");
    const use = document.createElementNS(SVG, "use");
    made.setAttribute("aria-hidden", "true");
    use.setAttribute("href", `#icon-${name}`);
    made.append(use);
    return made;
}

export const byId = id => document.getElementById(id);

// Tells a screen reader. Streamed text is told when it is whole, because every word would interrupt the one before it.
export function announce(text) {
    byId("announcer").textContent = text;
}

// A button that may have to wait, and says how long.
export function waitingButton(label, seconds, action) {
    const made = element("button", { type: "button", class: "plain", onclick: action }, label);
    const wait = left => {
        made.disabled = left > 0;
        made.textContent = left > 0 ? `${label} in ${left} s` : label;
        if (left > 0) setTimeout(() => wait(left - 1), 1000);
    };
    wait(seconds);
    return made;
}
