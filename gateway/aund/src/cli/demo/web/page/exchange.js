// One message of the user and all that follows from it, from the input that is sent to the end of the last run.

import { ApiError, explain } from "./api.js";
import { announce, waitingButton } from "./dom.js";
import { upload } from "./pictures.js";
import { Questions } from "./question.js";
import { cancelRun, newId, runEvents, runInput } from "./run.js";
import { AgentTurn } from "./turn.js";

// Of this tab: the exchange that has not ended, which is followed again after a reload.
const EXCHANGE = "aund.exchange";

// A runner takes a run within seconds, if there is one.
const RUNNER_MS = 15_000;

export function keptExchange(threadId) {
    const kept = JSON.parse(sessionStorage.getItem(EXCHANGE) ?? "null");
    return kept?.threadId === threadId ? kept : null;
}

export function forgetExchange() {
    sessionStorage.removeItem(EXCHANGE);
}

// It is one run, and one more for each time that questions are answered.
export class Exchange {
    constructor(conversation, { text, pictures, mine = null, runs = [] }) {
        Object.assign(this, { conversation, text, pictures, mine, runs });
        this.threadId = conversation.threadId;
        this.left = conversation.leave.signal;
        this.turn = new AgentTurn(conversation.say);
    }

    // Runs what is there, or the message that has not been sent yet.
    async run() {
        this.ended = new AbortController();
        const signal = AbortSignal.any([this.ended.signal, this.left]);
        this.conversation.setRunning(this);
        this.turn.running = true;
        try {
            if (this.runs.length === 0) await this.prepare(signal);
            // Those before the last one have ended with questions that were answered.
            while (this.played < this.runs.length - 1) await this.play(this.runs[this.played], signal);
            await this.play(this.runs.at(-1), signal);
        } catch (error) {
            if (!this.left.aborted) this.failed(error);
        } finally {
            this.reconnecting?.remove();
            this.turn.running = false;
            if (!this.left.aborted) this.conversation.setRunning(null);
        }
    }

    // How many runs were followed to their end.
    played = 0;

    async prepare(signal) {
        const blocks = await Promise.all(this.pictures.map(picture => upload(picture, this.threadId, signal)));
        const content = blocks.length === 0 ? this.text : [...(this.text ? [{ type: "text", text: this.text }] : []), ...blocks];
        this.add({ messages: [{ id: newId(), role: "user", content }] });
    }

    // The text of an input is kept: the server knows a run again by its very bytes.
    add(input) {
        const runId = newId();
        this.runs.push({ runId, body: JSON.stringify(runInput(this.threadId, runId, input)) });
        const { threadId, text, runs } = this;
        sessionStorage.setItem(EXCHANGE, JSON.stringify({ threadId, text, runs }));
    }

    async play({ runId, body }, signal) {
        const isLast = this.played === this.runs.length - 1;
        const waiting = () => {
            this.reconnecting ??= this.turn.note("The connection is lost. Trying again …", { kind: "pending" });
        };
        const runner = this.expectRunner();
        try {
            for await (const event of runEvents({ threadId: this.threadId, runId, body: isLast ? body : null, signal, waiting })) {
                this.reconnecting?.remove();
                this.reconnecting = null;
                if (event.type !== "RUN_STARTED") runner.came();
                this.turn.take(event);
                if (event.type === "RUN_ERROR") this.broken(event);
                if (event.type === "RUN_FINISHED") this.finished(event, isLast);
            }
        } finally {
            runner.came();
        }
        this.played += 1;
    }

    // Says so, if nobody works on the run.
    expectRunner() {
        let note;
        const timer = setTimeout(() => {
            note = this.turn.note("This run waits for a runner. A server of several processes starts none itself.", { kind: "pending" });
        }, RUNNER_MS);
        return {
            came: () => {
                clearTimeout(timer);
                note?.remove();
            },
        };
    }

    finished({ outcome }, isLast) {
        if (outcome?.type === "interrupt") {
            if (isLast) this.ask(outcome.interrupts ?? []);
            return;
        }
        this.turn.stop();
        this.over();
        if (outcome?.type === "cancelled") this.turn.note("You stopped this run.", { kind: "info" });
        else if (this.turn.isEmpty) this.turn.note("The agent has finished without an answer.", { kind: "info" });
    }

    broken({ message, code }) {
        this.turn.stop();
        this.over();
        if (code === "RUN_CANCELED") {
            this.turn.note("You stopped this run.", { kind: "info" });
            announce("The run was stopped.");
            return;
        }
        const note = this.turn.note(`The run has failed: ${message}${code ? ` (${code})` : ""}.`, { kind: "error" });
        note.append(waitingButton("Send it again", 0, () => this.conversation.send(this.text, this.pictures)));
    }

    over() {
        forgetExchange();
    }

    ask(interrupts) {
        const questions = new Questions(interrupts, resume => {
            this.conversation.questions = null;
            this.add({ resume });
            this.conversation.composer.text.focus({ preventScroll: true });
            this.run();
        });
        this.turn.parts.append(questions.element);
        this.conversation.questions = questions;
        // Who is writing goes on writing.
        if (this.conversation.composer.text.value === "") questions.focus();
    }

    // The server knows a run as soon as it has its input; before that there is nothing to cancel but the sending.
    async stop() {
        const run = this.runs.at(-1);
        if (!run) return this.ended.abort();
        try {
            await cancelRun(this.threadId, run.runId);
        } catch (error) {
            if (error instanceof ApiError && error.status === 404) return this.ended.abort();
            this.conversation.composer.changed(explain(error).text);
            this.conversation.composer.running = true;
        }
        return undefined;
    }

    failed(error) {
        if (this.ended.signal.aborted) return this.edit();
        const note = this.conversation.failure(error, {
            retry: () => this.replay(),
            edit: this.mine && this.runs.length < 2 ? () => this.edit() : null,
            again: () => {
                const { messages, resume } = JSON.parse(this.runs.pop().body);
                this.add({ messages, resume });
                this.run();
            },
        });
        this.turn.parts.append(note);
        return undefined;
    }

    // What was shown of the runs comes again from their beginning.
    replay() {
        const shown = this.turn.element;
        this.turn = new AgentTurn(this.conversation.say);
        this.played = 0;
        shown.replaceWith(this.turn.element);
        this.run();
    }

    // The message goes back to where it was written.
    edit() {
        this.over();
        this.mine?.remove();
        this.turn.element.remove();
        this.conversation.composer.edit(this.text, this.pictures);
        this.conversation.welcome();
    }
}
