// The page: one conversation, from its history to the run that goes on.

import { ApiError, explain, takeToken } from "./api.js";
import { Composer } from "./composer.js";
import { announce, byId, element, icon, waitingButton } from "./dom.js";
import { Exchange, forgetExchange, keptExchange } from "./exchange.js";
import { dayElements, keepTimezone, readHistory, separator, today, userTurn } from "./history.js";
import { newId } from "./run.js";
import { LatestScroll } from "./scroll.js";

// Which conversation this tab shows.
const THREAD = "aund.thread";

class Conversation {
    constructor() {
        this.turns = byId("turns");
        this.scroll = new LatestScroll(byId("conversation"), byId("turns"), byId("latest"));
        this.composer = new Composer({ send: (text, pictures) => this.send(text, pictures), stop: () => this.stop() });
        this.say = text => {
            if (!this.running && text) this.send(text, []);
        };
        byId("new-conversation").addEventListener("click", () => this.begin());
        byId("earlier").addEventListener("click", () => this.earlier());
        for (const example of document.querySelectorAll("[data-prompt]")) {
            example.addEventListener("click", () => this.say(example.dataset.prompt));
        }
        document.addEventListener("keydown", event => {
            if (event.key === "Escape" && this.running) this.stop();
        });
        this.leave = new AbortController();
    }

    async open() {
        await keepTimezone();
        await this.load();
        this.composer.text.focus();
    }

    // The newest day of the conversation of this tab, else of the one that the agent used last.
    async load() {
        this.threadId = sessionStorage.getItem(THREAD);
        let history = null;
        try {
            history = await this.newestDay();
        } catch (error) {
            this.turns.replaceChildren(this.failure(error, { retry: () => this.load() }));
            return;
        }
        this.turns.replaceChildren();
        this.keepThread(history?.threadId ?? this.threadId ?? newId());
        this.showDay(history);
        const kept = keptExchange(this.threadId);
        if (kept) this.resume(kept, history?.messages ?? []);
        this.welcome();
        this.scroll.toEnd();
    }

    async newestDay() {
        try {
            return await readHistory(this.threadId);
        } catch (error) {
            // A conversation in which nothing was said yet.
            if (error instanceof ApiError && error.status === 404) return null;
            throw error;
        }
    }

    showDay(history) {
        byId("earlier").hidden = !history?.hasMore;
        if (!history?.day) return;
        this.oldestDay = history.day;
        this.turns.prepend(...dayElements(history, this.say));
    }

    async earlier() {
        const button = byId("earlier");
        button.disabled = true;
        try {
            const history = await readHistory(this.threadId, this.oldestDay);
            this.scroll.keep(() => this.showDay(history));
            announce(`${history.messages.length} earlier messages are shown.`);
        } catch (error) {
            this.composer.changed(explain(error).text);
        } finally {
            button.disabled = false;
        }
    }

    // A new conversation. A run that goes on does so at the server.
    begin() {
        this.leave.abort();
        this.leave = new AbortController();
        forgetExchange();
        this.keepThread(newId());
        this.questions = null;
        this.setRunning(null);
        this.turns.replaceChildren();
        byId("earlier").hidden = true;
        this.composer.changed("");
        this.welcome();
        this.composer.text.focus();
        announce("A new conversation.");
    }

    keepThread(threadId) {
        this.threadId = threadId;
        sessionStorage.setItem(THREAD, threadId);
    }

    welcome() {
        byId("welcome").hidden = this.turns.hasChildNodes() || !byId("earlier").hidden;
    }

    send(text, pictures) {
        this.questions?.dismiss();
        this.questions = null;
        const days = this.turns.querySelectorAll(".day");
        if ([...days].at(-1)?.dataset.day !== today()) this.turns.append(separator(today()));
        const mine = userTurn(text, pictures.map(({ url }) => url), Date.now());
        this.turns.append(mine);
        this.follow(new Exchange(this, { text, pictures, mine }));
    }

    // After a reload: what the server says of the runs of an exchange, from its beginning.
    resume({ runs, text }, messages) {
        const last = messages.at(-1);
        if (last?.role === "assistant") return forgetExchange();
        // The page was left before the server had the message.
        if (last?.content !== text && text) this.turns.append(userTurn(text, [], Date.now()));
        return this.follow(new Exchange(this, { text, pictures: [], runs }));
    }

    async follow(exchange) {
        this.turns.append(exchange.turn.element);
        this.scroll.toEnd();
        this.welcome();
        await exchange.run();
    }

    setRunning(exchange) {
        this.running = exchange;
        this.composer.running = exchange !== null;
    }

    async stop() {
        this.composer.stopping();
        announce("Stopping.");
        await this.running?.stop();
    }

    // A sentence about an error, with a button for what can be done.
    failure(error, { retry, edit, again } = {}) {
        const { text, act, seconds = 0 } = explain(error);
        const actions = {
            retry: retry && ["Try again", retry],
            edit: edit && ["Edit the message", edit],
            again: again && ["Send it again", again],
            new: ["New conversation", () => this.begin()],
            reload: ["Reload", () => location.reload()],
        };
        const [label, action] = actions[act] ?? [];
        const note = element("div", { class: "note", "data-kind": "error", role: "alert" }, icon("error"), element("p", {}, text));
        if (label) note.append(waitingButton(label, seconds, () => { note.remove(); action(); }));
        return note;
    }
}

takeToken();
new Conversation().open();
