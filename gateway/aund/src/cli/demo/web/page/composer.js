// Where a message is written: text, pictures, and the buttons that send it or stop the run.

import { byId } from "./dom.js";
import { Pictures } from "./pictures.js";

const MOST_CHARACTERS = 10_000;
// From here on the reader sees how many are left.
const COUNTED_FROM = 9_000;

export class Composer {
    constructor({ send, stop }) {
        this.form = byId("composer");
        this.text = byId("text");
        this.stop = stop;
        this.pictures = new Pictures(byId("pictures"), problem => this.changed(problem));
        this.isRunning = false;
        this.form.addEventListener("submit", event => {
            event.preventDefault();
            this.submit(send);
        });
        this.text.addEventListener("input", () => this.changed(""));
        this.text.addEventListener("keydown", event => {
            // While an input method composes, Enter chooses one of its words.
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            this.form.requestSubmit();
        });
        byId("stop").addEventListener("click", stop);
        this.takePictures();
        this.changed("");
    }

    takePictures() {
        const files = byId("files");
        byId("attach").addEventListener("click", () => files.click());
        files.addEventListener("change", () => {
            this.pictures.add(files.files);
            files.value = "";
            this.text.focus();
        });
        this.text.addEventListener("paste", event => {
            const pasted = [...event.clipboardData.files];
            if (pasted.length === 0) return;
            event.preventDefault();
            this.pictures.add(pasted);
        });
        const hasFiles = event => event.dataTransfer?.types.includes("Files");
        document.addEventListener("dragover", event => {
            if (!hasFiles(event)) return;
            event.preventDefault();
            byId("drop").hidden = false;
        });
        document.addEventListener("dragleave", event => {
            if (!event.relatedTarget) byId("drop").hidden = true;
        });
        document.addEventListener("drop", event => {
            byId("drop").hidden = true;
            if (!hasFiles(event)) return;
            event.preventDefault();
            this.pictures.add(event.dataTransfer.files);
        });
    }

    submit(send) {
        const text = this.text.value.trim();
        if (this.isRunning || (text === "" && this.pictures.chosen.length === 0)) return;
        if (length(text) > MOST_CHARACTERS) {
            this.changed(`A message can have at most ${MOST_CHARACTERS.toLocaleString("en")} characters.`);
            return;
        }
        this.text.value = "";
        send(text, this.pictures.take());
    }

    // A message that was not accepted, to be changed.
    edit(text, pictures) {
        this.text.value = text;
        this.pictures.putBack(pictures);
        this.text.focus();
    }

    set running(running) {
        this.isRunning = running;
        const hadFocus = [byId("send"), byId("stop")].includes(document.activeElement);
        byId("send").hidden = running;
        byId("stop").hidden = !running;
        byId("stop").disabled = false;
        if (hadFocus) this.text.focus();
    }

    // Between the press and the end of the run.
    stopping() {
        byId("stop").disabled = true;
    }

    changed(problem) {
        byId("problem").textContent = problem;
        const used = length(this.text.value.trim());
        byId("count").hidden = used < COUNTED_FROM;
        byId("count").textContent = `${used.toLocaleString("en")} of ${MOST_CHARACTERS.toLocaleString("en")}`;
        byId("send").disabled = used === 0 && this.pictures.chosen.length === 0;
        // Where the style sheet cannot do it.
        if (!CSS.supports("field-sizing", "content")) {
            this.text.style.height = "auto";
            this.text.style.height = `${this.text.scrollHeight}px`;
        }
    }
}

// As the server counts: a character outside the first 65,536 is one.
const length = text => [...text].length;
