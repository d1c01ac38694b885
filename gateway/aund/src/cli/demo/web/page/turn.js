// What one message of the user leads to, made from AG-UI events: texts, tool calls, reasoning, steps, and how it ends.

import { announce, element, icon } from "./dom.js";
import { renderUi } from "./ui_schema.js";

export class AgentTurn {
    // `say` sends a text, as a button of a document of the agent does.
    constructor(say) {
        this.say = say;
        this.texts = new Map();
        this.tools = new Map();
        this.reasoning = new Map();
        this.steps = element("ol", { class: "steps", "aria-label": "Steps" });
        this.parts = element("div", { class: "parts" });
        this.element = element(
            "article", { class: "turn agent", "aria-label": "Agent" },
            this.steps, this.parts, element("p", { class: "pulse", "aria-hidden": "true" }, element("i")),
        );
    }

    set running(running) {
        this.element.toggleAttribute("data-running", running);
        this.element.setAttribute("aria-busy", String(running));
    }

    // A message of the history is whole.
    static ofHistory(message, say) {
        const turn = new AgentTurn(say);
        if (message.content) turn.addText(message.content);
        turn.addUi(message.ui_schema);
        return turn;
    }

    take(event) {
        switch (event.type) {
            case "STEP_STARTED": return this.startStep(event.stepName);
            case "STEP_FINISHED": return this.finishStep(event.stepName);
            case "TEXT_MESSAGE_START": return this.startText(event.messageId);
            case "TEXT_MESSAGE_CONTENT": return this.texts.get(event.messageId)?.append(event.delta);
            case "TEXT_MESSAGE_END": return this.endText(event);
            case "TOOL_CALL_START": return this.startTool(event);
            case "TOOL_CALL_ARGS": return this.tools.get(event.toolCallId)?.appendArguments(event.delta);
            case "TOOL_CALL_END": return this.tools.get(event.toolCallId)?.argumentsEnd();
            case "TOOL_CALL_RESULT": return this.tools.get(event.toolCallId)?.end(event);
            case "REASONING_MESSAGE_START": return this.startReasoning(event.messageId);
            case "REASONING_MESSAGE_CONTENT": return this.reasoning.get(event.messageId)?.append(event.delta);
            case "CUSTOM": return event.name === "ui_schema" ? this.addUi(event.value) : undefined;
            // Events of later versions change nothing here.
            default: return undefined;
        }
    }

    // A run that goes on after a question begins with the step that asked it.
    startStep(name) {
        const last = this.steps.lastElementChild;
        if (last?.dataset.step === name) last.dataset.state = "active";
        else this.steps.append(element("li", { "data-step": name, "data-state": "active" }, name));
    }

    finishStep(name) {
        const open = [...this.steps.children].find(step => step.dataset.step === name && step.dataset.state === "active");
        open?.setAttribute("data-state", "done");
    }

    addText(text) {
        const shown = new ShownText();
        shown.append(text);
        this.parts.append(shown.element);
        return shown;
    }

    startText(id) {
        this.texts.set(id, this.addText(""));
    }

    endText({ messageId, metadata }) {
        const text = this.texts.get(messageId)?.text;
        if (text) announce(text);
        this.addUi(metadata?.agentrun?.ui_schema);
    }

    startTool({ toolCallId, toolCallName }) {
        const tool = new ToolCall(toolCallName);
        this.tools.set(toolCallId, tool);
        this.parts.append(tool.element);
    }

    startReasoning(id) {
        const shown = new ShownText();
        this.reasoning.set(id, shown);
        this.parts.append(folded("reasoning", [element("span", {}, "Reasoning")], shown.element));
    }

    // It comes twice: as an event of its own, and with the end of the message.
    addUi(document) {
        if (!document || JSON.stringify(document) === this.document) return;
        this.document = JSON.stringify(document);
        const rendered = renderUi(document, this.say);
        if (rendered) this.parts.append(rendered);
    }

    // A sentence about how the run ended, with what the reader can do about it.
    note(text, { kind = "info", action } = {}) {
        const note = element("div", { class: "note", "data-kind": kind, role: kind === "error" ? "alert" : null },
            icon(kind), element("p", {}, text), action);
        this.parts.append(note);
        return note;
    }

    // What was under way when the run ended did not end by itself.
    stop() {
        for (const tool of this.tools.values()) tool.stop();
        for (const step of this.steps.children) step.dataset.state = "done";
    }

    get isEmpty() {
        return !this.parts.hasChildNodes() && !this.steps.hasChildNodes();
    }
}

class ShownText {
    constructor() {
        this.node = document.createTextNode("");
        this.element = element("p", { class: "text" }, this.node);
    }

    append(delta) {
        this.node.appendData(delta);
    }

    get text() {
        return this.node.data;
    }
}

class ToolCall {
    constructor(name) {
        this.name = name;
        this.args = "";
        this.state = element("span", { class: "state" }, "is called");
        this.given = element("pre", { tabindex: "0", "aria-label": `Arguments of ${name}` });
        this.result = element("pre", { tabindex: "0", "aria-label": `Result of ${name}` });
        this.resultPart = element("div", { hidden: true }, element("h3", {}, "Result"), this.result);
        this.element = folded(
            "tool", [icon("tool"), element("code", {}, name), this.state],
            element("div", {}, element("h3", {}, "Arguments"), this.given), this.resultPart,
        );
        this.element.dataset.state = "running";
    }

    appendArguments(delta) {
        this.args += delta;
        this.given.textContent = this.args;
    }

    argumentsEnd() {
        this.given.textContent = readable(this.args) || "none";
    }

    end({ content, error }) {
        this.result.textContent = readable(error || content || "");
        this.resultPart.hidden = false;
        this.finish(error ? "failed" : "done");
        announce(`The tool ${this.name} ${error ? "has failed" : "has answered"}.`);
    }

    stop() {
        if (this.element.dataset.state === "running") this.finish("stopped");
    }

    finish(state) {
        this.element.dataset.state = state;
        this.state.textContent = state;
    }
}

function folded(kind, summary, ...content) {
    return element("details", { class: `folded ${kind}` },
        element("summary", {}, ...summary, icon("chevron")),
        element("div", { class: "inside" }, ...content));
}

// JSON with its structure shown; other text as it is.
function readable(text) {
    try {
        const value = JSON.parse(text);
        return typeof value === "string" ? value : JSON.stringify(value, null, 2);
    } catch {
        return text;
    }
}
