// One run: its input, its events in order, and what happens when the connection breaks.

import { ApiError, request } from "./api.js";
import { events } from "./sse.js";

// Three comments of the server and a little.
const SILENCE = 50_000;
const LAST_PAUSE = 8_000;
// A message that could not be sent is shown as such soon; a run that goes on is worth waiting for.
const SEND_TRIES = 3;
const FOLLOW_TRIES = 9;

const ENDS = new Set(["RUN_FINISHED", "RUN_ERROR"]);

export const newId = () => crypto.randomUUID();

// What is sent: the new message only, because the server has those before it.
export function runInput(threadId, runId, { messages = [], resume }) {
    const now = new Date();
    const client_time = {
        device_timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        client_now_iso: isoWithOffset(now),
        client_epoch_ms: now.getTime(),
    };
    return {
        threadId, runId, state: {}, messages, tools: [], context: [],
        forwardedProps: { runtime_mode: "chat", client_time },
        // Of AG-UI: a cancelled run ends with an outcome.
        protocolVersion: "1.0",
        ...(resume ? { resume } : {}),
    };
}

// RFC 3339 with the offset of this device.
export function isoWithOffset(date) {
    const minutes = -date.getTimezoneOffset();
    const two = number => String(Math.trunc(Math.abs(number))).padStart(2, "0");
    const local = new Date(date.getTime() + minutes * 60_000).toISOString().slice(0, 19);
    return `${local}${minutes < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
}

// The AG-UI events of a run, until the one that ends it. `body` is the input as it is sent: a server that has it already answers
// with the events of that run, so it may be sent again. Without `body`, the run is known to be there. `waiting` is told before each
// pause.
export async function* runEvents({ threadId, runId, body = null, signal, waiting }) {
    let sent = body === null;
    let lastId = "";
    let tries = 0;
    for (;;) {
        try {
            const answer = sent ? await resumed(threadId, runId, lastId, signal) : await started(body, signal);
            sent = true;
            for await (const { id, data } of events(answer.body, SILENCE)) {
                const event = JSON.parse(data);
                lastId = id;
                tries = 0;
                yield event;
                if (ENDS.has(event.type)) return;
            }
        } catch (error) {
            if (signal.aborted || !mayPass(error, sent)) throw error;
        }
        tries += 1;
        if (tries >= (sent ? FOLLOW_TRIES : SEND_TRIES)) throw new ApiError(0, "no answer");
        waiting(tries);
        await pause(tries, signal);
    }
}

const started = (body, signal) => request("POST", "/runs", {
    body, signal, headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
});

const resumed = (threadId, runId, lastId, signal) => request(
    "GET", `/runs/${encodeURIComponent(threadId)}/events?runId=${encodeURIComponent(runId)}`,
    { signal, headers: { Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) } },
);

// Whether the same may succeed in a moment: a broken connection always, a refusal only where the run is there already.
function mayPass(error, sent) {
    if (!(error instanceof ApiError)) return error instanceof TypeError || error.name === "AbortError";
    return error.status === 0 || (sent && (error.status === 429 || error.status >= 500));
}

// Longer each time, and not for all pages at the same moment.
function pause(tries, signal) {
    const most = Math.min(LAST_PAUSE, 250 * 2 ** tries);
    return new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, most * (0.5 + Math.random() / 2));
        signal.addEventListener("abort", () => {
            clearTimeout(timer);
            reject(signal.reason);
        }, { once: true });
    });
}

export function cancelRun(threadId, runId) {
    const path = `/runs/${encodeURIComponent(threadId)}/cancel?runId=${encodeURIComponent(runId)}`;
    return request("POST", path);
}
