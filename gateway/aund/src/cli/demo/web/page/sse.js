// Server-sent events from the body of a response, as the HTML standard reads them.

// Lines that end with LF, CR or CRLF, also where one of these is cut between two chunks.
class Lines {
    constructor() {
        this.rest = "";
        this.afterCr = false;
    }

    take(text) {
        if (this.afterCr && text.startsWith("\n")) text = text.slice(1);
        if (text !== "") this.afterCr = text.endsWith("\r");
        const lines = (this.rest + text).split(/\r\n|\r|\n/);
        this.rest = lines.pop();
        return lines;
    }
}

// Collects the fields of one event; an empty line ends it.
export class EventParser {
    constructor() {
        this.lines = new Lines();
        // Stays from event to event, until another one is sent.
        this.lastId = "";
        this.begin();
    }

    begin() {
        this.data = [];
        this.name = "";
    }

    // The events that this text completes.
    take(text) {
        return this.lines.take(text).map(line => this.line(line)).filter(event => event);
    }

    line(line) {
        if (line === "") return this.end();
        // A comment, such as `: keep-alive`.
        if (line.startsWith(":")) return null;
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "data") this.data.push(value);
        else if (field === "event") this.name = value;
        else if (field === "id" && !value.includes("\0")) this.lastId = value;
        return null;
    }

    end() {
        const event = { id: this.lastId, name: this.name || "message", data: this.data.join("\n") };
        const whole = this.data.length > 0;
        this.begin();
        return whole ? event : null;
    }
}

// The events of a stream, until it ends. `silence` is how many milliseconds may pass without a byte: the server sends a comment
// every 15 seconds, so a connection that is quiet for longer is a broken one.
export async function* events(body, silence) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    try {
        for (;;) {
            const { value, done } = await within(reader.read(), silence);
            if (done) return;
            yield* parser.take(value);
        }
    } finally {
        reader.cancel().catch(() => {});
    }
}

function within(promise, ms) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new TypeError("the stream is silent")), ms);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
