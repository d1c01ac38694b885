// One published AG-UI client, and what it saw.
//
//   node driver.mjs FOLDER PACKAGE
//
// FOLDER has the installed packages. Each line of standard input is a request {id, do, with}; each line of standard output an answer
// {id, done} or {id, failed}. Every answer has what the client has said on the console since the one before.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, name] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const { HttpAgent } = require(name);
const { EventSchemas, RunAgentInputSchema } = require("@ag-ui/core/schemas");
const { EventSource } = require("eventsource");
const dns = require("node:dns");

const agents = [];
const runs = [];
const followers = [];
const exchanges = [];
let said = [];

for (const level of ["warn", "error", "info", "log", "debug"]) {
  console[level] = (...words) => said.push({ level, text: words.map(String).join(" ") });
}

// The client fetches as in a browser; what crosses the wire is kept beside it.
const fetched = globalThis.fetch;
globalThis.fetch = async (url, init) => {
  const exchange = { url: String(url), headers: init.headers, body: init.body, frames: "" };
  exchanges.push(exchange);
  const response = await fetched(url, init);
  exchange.status = response.status;
  exchange.contentType = response.headers.get("content-type");
  const decoder = new TextDecoder();
  const kept = response.body.pipeThrough(
    new TransformStream({
      transform(chunk, controller) {
        exchange.frames += decoder.decode(chunk, { stream: true });
        controller.enqueue(chunk);
      },
    }),
  );
  return new Response(kept, { status: response.status, headers: response.headers });
};

const commands = {
  /** Names that no resolver knows lead to this address. */
  resolve({ host, address }) {
    const lookup = dns.lookup;
    dns.lookup = (asked, options, done) => {
      if (asked !== host) return lookup(asked, options, done);
      const all = typeof options === "object" && options.all;
      return all ? done(null, [{ address, family: 4 }]) : done(null, address, 4);
    };
  },

  open({ url, token, threadId }) {
    agents.push(new HttpAgent({ url, threadId, headers: { Authorization: `Bearer ${token}` } }));
    const agent = agents.length - 1;
    return { agent, threadId: agents[agent].threadId };
  },

  /** Begins a run. `messages` replaces what the client would send, `add` is one more. */
  begin({ agent: number, messages, add, state, parameters }) {
    const agent = agents[number];
    if (messages) agent.messages = messages;
    if (add) agent.addMessage(add);
    if (state !== undefined && state !== null) agent.state = state;
    const run = { agent, events: [], waiting: [], over: false, began: exchanges.length };
    runs.push(run);
    const changed = () => run.waiting.splice(0).forEach((wake) => wake());
    const subscriber = {
      onEvent: ({ event }) => {
        run.events.push(structuredClone({ ...event, rawEvent: undefined }));
        changed();
      },
    };
    run.promise = agent
      .runAgent(parameters, subscriber)
      .then((result) => (run.result = result))
      .catch((error) => (run.error = error))
      .finally(() => {
        run.over = true;
        changed();
      });
    return { run: runs.length - 1 };
  },

  /** Waits until the client has told its application of an event. */
  async until({ run: number, type, text }) {
    const run = runs[number];
    const isWanted = (event) => event.type === type && (!text || JSON.stringify(event).includes(text));
    while (!run.events.some(isWanted)) {
      if (run.over) throw new Error(`the run ended before ${type}: ${JSON.stringify(seen(run))}`);
      await new Promise((wake) => run.waiting.push(wake));
    }
  },

  abort({ run: number }) {
    runs[number].agent.abortRun();
  },

  async end({ run: number }) {
    await runs[number].promise;
    return seen(runs[number]);
  },

  /** Follows a stream as a page would, until an event of one of these types. After each of `cuts` bytes the connection is lost. */
  async follow({ url, token, cuts, until, types }) {
    const requests = [];
    const frames = [];
    let opened = 0;
    const source = new EventSource(url, {
      fetch: async (to, init) => {
        const cut = cuts.shift();
        requests.push(init.headers["Last-Event-ID"] ?? null);
        const headers = { ...init.headers, Authorization: `Bearer ${token}` };
        const response = await fetched(to, { ...init, headers });
        opened += 1;
        return cut === undefined ? response : shortened(response, cut);
      },
    });
    return await new Promise((done, failed) => {
      const end = (finish, value) => {
        source.close();
        finish(value);
      };
      for (const type of types) {
        source.addEventListener(type, ({ lastEventId, data }) => {
          frames.push({ id: lastEventId, event: type, data: JSON.parse(data) });
          if (until.includes(type)) end(done, { frames, requests, opened });
        });
      }
      source.addEventListener("error", (error) => {
        // What is no answer ends the source; what is lost it asks for again.
        if (source.readyState === EventSource.CLOSED) end(failed, new Error(`${error.code}: ${error.message}`));
      });
    });
  },

  /** What the schemas of 1.0 find wrong. */
  flaws({ events, inputs }) {
    return [...flawsIn(EventSchemas, events ?? []), ...flawsIn(RunAgentInputSchema, inputs ?? [])];
  },
};

function seen(run) {
  const { agent, events, result, error } = run;
  const [exchange] = exchanges.slice(run.began).filter(({ body }) => body && JSON.parse(body).threadId === agent.threadId);
  return {
    events,
    messages: agent.messages,
    newMessages: result?.newMessages ?? null,
    result: result?.result ?? null,
    pendingInterrupts: agent.pendingInterrupts ?? null,
    error: error ? { message: error.message, status: error.status ?? null, payload: error.payload ?? null } : null,
    status: exchange?.status ?? null,
    contentType: exchange?.contentType ?? null,
    requestHeaders: exchange?.headers ?? null,
    input: exchange ? JSON.parse(exchange.body) : null,
    wire: exchange?.frames ?? "",
  };
}

function flawsIn(schema, values) {
  return values.flatMap((value) => {
    const parsed = schema.safeParse(value);
    return parsed.success ? [] : [`${JSON.stringify(value)}: ${parsed.error.message}`];
  });
}

/** The answer, whose connection is lost after so many bytes. */
function shortened(response, bytes) {
  const reader = response.body.getReader();
  let left = bytes;
  const body = new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) return controller.close();
      if (value.length >= left) {
        controller.enqueue(value.subarray(0, left));
        await reader.cancel();
        return controller.error(new TypeError("the connection is lost"));
      }
      left -= value.length;
      controller.enqueue(value);
    },
  });
  return new Response(body, { status: response.status, headers: response.headers });
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  // Not one after the other: a run may be cancelled while another request waits for it.
  Promise.resolve()
    .then(() => commands[request.do](request.with))
    .then((done) => ({ done: done ?? null }))
    .catch((error) => ({ failed: error.stack ?? String(error) }))
    .then((answer) => {
      process.stdout.write(`${JSON.stringify({ id: request.id, ...answer, said })}\n`);
      said = [];
    });
}
process.exit(0);
