// Questions that a run waits for: AG-UI interrupts. A run goes on when all of them are answered.

import { announce, element, icon } from "./dom.js";

const WORDS = { accept: "Accept", decline: "Decline", cancel: "Cancel", approve: "Approve", deny: "Deny", yes: "Yes", no: "No" };
// These say no, and never look like what a person should press.
const NO = new Set(["decline", "deny", "reject", "no", "false"]);

export class Questions {
    // `answer` gets the member `resume` of the next input.
    constructor(interrupts, answer) {
        this.answer = answer;
        this.resume = new Map();
        this.all = interrupts.map(interrupt => this.question(interrupt));
        this.element = element("div", { class: "questions" }, ...this.all);
        announce(interrupts.map(said).join(" "));
    }

    // The question, and no button of it: who presses Enter at this moment has accepted nothing.
    focus() {
        this.all[0]?.focus({ preventScroll: true });
    }

    question(interrupt) {
        const label = `question-${crypto.randomUUID()}`;
        const choices = choicesOf(interrupt).map(({ text, payload, isNo }, index) => this.button(
            interrupt, text, { interruptId: interrupt.id, status: "resolved", payload }, isNo || index > 0 ? "plain" : "primary",
        ));
        const cancel = this.button(interrupt, "Cancel", { interruptId: interrupt.id, status: "cancelled" }, "quiet");
        return element(
            "div", { class: "question", role: "group", tabindex: "-1", "aria-labelledby": label, "data-interrupt": interrupt.id },
            element("p", { class: "asks", id: label }, icon("info"), said(interrupt)),
            element("div", { class: "answers" }, ...choices, cancel),
        );
    }

    button(interrupt, text, answer, kind) {
        return element("button", { type: "button", class: kind, onclick: () => this.choose(interrupt, text, answer) }, text);
    }

    choose(interrupt, text, answer) {
        const index = this.all.findIndex(question => question.dataset.interrupt === interrupt.id);
        this.close(this.all[index], answer.status === "cancelled" ? "You cancelled this." : `You chose ${text}.`);
        this.resume.set(interrupt.id, answer);
        if (this.resume.size === this.all.length) this.answer([...this.resume.values()]);
    }

    // A new message takes the place of the answers that are missing.
    dismiss() {
        for (const question of this.all) this.close(question, "You went on without an answer.");
    }

    close(question, sentence) {
        const answers = question.querySelector(".answers");
        answers?.replaceWith(element("p", { class: "answered" }, sentence));
    }
}

function said(interrupt) {
    return interrupt.message || interrupt.metadata?.message || interrupt.reason || "The agent asks for your approval.";
}

// From the options that are named, or what the schema of the answer allows; else accept and decline.
function choicesOf(interrupt) {
    const schema = interrupt.responseSchema ?? {};
    const fields = schema.properties ?? {};
    const options = [interrupt.metadata?.agentrun?.options, interrupt.metadata?.options, fields.decision?.enum, schema.enum]
        .find(list => Array.isArray(list) && list.length > 0);
    if (!options && fields.approved?.type === "boolean") {
        return [true, false].map(approved => ({ text: approved ? "Accept" : "Decline", payload: { approved }, isNo: !approved }));
    }
    return (options ?? ["accept", "decline"])
        .map(option => (typeof option === "object" && option !== null ? option : { id: option }))
        .map(({ id, value, label }) => ({ decision: String(value ?? id ?? label), label }))
        // The button for it is always there.
        .filter(({ decision }) => decision !== "cancel")
        .map(({ decision, label }) => ({ text: String(label ?? words(decision)), payload: { decision }, isNo: NO.has(decision) }));
}

// `acceptForSession` is "Accept for session".
function words(name) {
    const known = WORDS[name];
    if (known) return known;
    const spaced = name.replace(/([a-z])([A-Z])/g, "$1 $2").replace(/[_-]+/g, " ").toLowerCase();
    return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}
