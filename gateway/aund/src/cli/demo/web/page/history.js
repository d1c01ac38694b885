// The messages of a conversation that the server has kept: the newest day first, and older ones on demand.

import { requestJson } from "./api.js";
import { element } from "./dom.js";
import { shownPictures } from "./pictures.js";
import { AgentTurn } from "./turn.js";

// The newest day of a conversation, or of the one that was used last.
export function readHistory(threadId, before) {
    const query = new URLSearchParams();
    if (threadId) query.set("threadId", threadId);
    if (before) query.set("before", before);
    return requestJson("GET", `/history?${query}`);
}

// Days begin and end where the person is.
export async function keepTimezone() {
    const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    await requestJson("PUT", "/profile", { timezone }).catch(() => {});
}

export function dayElements({ day, messages }, say) {
    const turns = messages.map(message => (
        message.role === "user"
            ? userTurn(message.content, (message.attachments ?? []).map(({ url }) => url), message.timestamp)
            : AgentTurn.ofHistory(message, say).element
    ));
    return [separator(day), ...turns];
}

export function userTurn(text, pictures, timestamp) {
    const at = new Date(timestamp);
    const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    return element("article", { class: "turn user", "aria-label": "You" },
        shownPictures(pictures), text ? element("p", { class: "text" }, text) : null,
        element("time", { class: "at", datetime: at.toISOString() }, time));
}

export function separator(day) {
    return element("h2", { class: "day", "data-day": day }, element("time", { datetime: day }, dayName(day)));
}

// The day on this device, as the server writes days.
export function today(days = 0) {
    const date = new Date();
    date.setDate(date.getDate() + days);
    const two = number => String(number).padStart(2, "0");
    return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

function dayName(day) {
    if (day === today()) return "Today";
    if (day === today(-1)) return "Yesterday";
    const [year, month, date] = day.split("-").map(Number);
    const options = { weekday: "long", day: "numeric", month: "long" };
    if (day.slice(0, 4) !== today().slice(0, 4)) options.year = "numeric";
    return new Date(year, month - 1, date).toLocaleDateString("en", options);
}
