// What a browser client does, step by step, from a page of another origin than the server's. Each step is reported to whoever
// serves the page; one that fails does not keep the others from being tried.

import { Agent } from "./agent.js";
import { within } from "./connection.js";
import { sha256, utf8 } from "./der.js";
import { check, json, runAll, same } from "./report.js";

const { issuer, port } = Object.fromEntries(new URLSearchParams(location.search));
const host = name => `https://${name}.${issuer}${port === "443" ? "" : `:${port}`}`;
const server = {};
const alice = new Agent(server, `alice.${issuer}`);
const bobby = new Agent(server, `bobby.${issuer}`);
const agents = [alice, bobby];

const steps = {
    async "find the gateway"() {
        const found = await json(`${host("alice")}/.well-known/aun-gateway`);
        server.url = found.gateways[0].url;
        server.origin = new URL(server.url.replace(/^wss:/, "https:")).origin;
        check(server.url.startsWith("wss://"), `the gateway is ${server.url}`);
        check(server.origin !== location.origin, "the page is of the server's origin");
    },

    async "read health and capabilities"() {
        const health = await json(`${server.origin}/health`);
        check(health.status === "ok", `health is ${JSON.stringify(health)}`);
        const capabilities = await json(`${server.origin}/capabilities`);
        check(JSON.stringify(capabilities).includes("rpc_gateway"), `capabilities are ${JSON.stringify(capabilities)}`);
    },

    async "find the names free"() {
        for (const agent of agents) same((await agent.get(`/pki/cert/${agent.aid}`)).status, 404, agent.aid);
    },

    async "register"() {
        for (const agent of agents) {
            await agent.register();
            same(await (await agent.get(`/pki/cert/${agent.aid}`)).text(), agent.pem, "the certificate that others get");
        }
    },

    async "log in"() {
        for (const agent of agents) await agent.login();
    },

    async "refresh the token"() {
        await alice.refresh();
    },

    async "connect"() {
        for (const agent of agents) await agent.connect();
        same((await alice.session.call("meta.status", {})).aid, alice.aid, "who is connected");
    },

    async "send, hear and pull"() {
        const payload = { type: "text", text: "from a page: 你好 é \u{1f600}" };
        const sent = await alice.signed("message.send", { to: bobby.aid, payload });
        const heard = await bobby.session.hear("event/message.received", event => event.message_id === sent.message_id);
        same(heard.payload.text, payload.text, "the text in the event");
        same(heard.from, alice.aid, "the sender in the event");
        const { messages } = await bobby.session.call("message.pull", { after_seq: 0 });
        same(messages.map(message => [message.message_id, message.payload.text]), [[sent.message_id, payload.text]], "the page");
        await bobby.session.call("message.ack", { seq: heard.seq });
        const acknowledged = await alice.session.hear("event/message.ack");
        same(acknowledged.ack_seq, heard.seq, "what the sender is told");
    },

    async "publish agent.md"() {
        const url = `${host("alice")}/agent.md`;
        const text = await alice.signedDocument(
            `---\naid: "${alice.aid}"\nname: "alice"\ntype: "agent"\nversion: "1.0.0"\n---\n\n# alice\n`);
        const put = headers => within(url, fetch(url, {
            method: "PUT",
            body: text,
            headers: {
                "Authorization": `Bearer ${alice.tokens.access_token}`,
                "Content-Type": "text/markdown; charset=utf-8",
                "X-AUN-Signature-Format": "multi-v1",
                ...headers,
            },
        }));
        const created = await put({ "If-None-Match": "*" });
        const etag = `"${await sha256(utf8(text))}"`;
        check(created.ok, `PUT agent.md: ${created.status} ${await created.clone().text()}`);
        same((await created.json()).etag, etag, "the etag of what was put");
        same((await put({ "If-None-Match": "*" })).status, 412, "creating it again");
        same((await put({ "If-Match": etag })).status, 200, "replacing what was read");
        same((await put({ "Authorization": "Bearer nonsense" })).status, 401, "without a token");

        const read = await within(url, fetch(url, { headers: { "X-AUN-Signature-Format": "multi-v1" } }));
        same(await read.text(), text, "what others read");
        same(read.headers.get("ETag"), etag, "the ETag a page may read");
        check(read.headers.get("Last-Modified"), "a page may not read Last-Modified");
        const head = await within(url, fetch(url, { method: "HEAD", headers: { "X-AUN-Signature-Format": "multi-v1" } }));
        same([head.status, head.headers.get("ETag")], [200, etag], "its headers alone");
    },

    async "call over HTTP"() {
        const body = { jsonrpc: "2.0", id: 1, method: "message.query_online", params: { aids: [bobby.aid] } };
        const ask = () => within("/rpc", fetch(`${server.origin}/rpc`, {
            method: "POST",
            headers: { "Authorization": `Bearer ${alice.tokens.access_token}`, "Content-Type": "application/json" },
            body: JSON.stringify(body),
        }));
        // Of several gateways the one that is asked hears of the others' sessions a moment later.
        for (let left = 100; left > 0; left -= 1) {
            const answer = await ask();
            same(answer.status, 200, "the status of /rpc");
            const { result, error } = await answer.json();
            check(result, `message.query_online: ${JSON.stringify(error)}`);
            if (result.online[bobby.aid]) return;
            await new Promise(resolve => setTimeout(resolve, 100));
        }
        throw new Error(`${bobby.aid} was never online`);
    },

    // Otherwise every other step would prove nothing about CORS.
    async "be kept from what is for no page"() {
        const url = `${server.origin}/agents`;
        const opaque = await within(url, fetch(url, { mode: "no-cors" }));
        same(opaque.type, "opaque", "an answer that comes and cannot be read");
        const refused = await within(url, fetch(url).then(() => null, error => error));
        check(refused instanceof TypeError, "the browser does not enforce CORS");
    },

    async "be told who replaced it"() {
        const first = alice.session;
        await alice.connect();
        same((await first.hear("event/gateway.disconnect")).code, 4009, "the code in the event");
        const { code, wasClean } = await within("the close", first.closed);
        same([code, wasClean], [4009, true], "the code of the close");
    },

    async "renew the certificate"() {
        const old = alice.certificate.serial;
        await alice.renew();
        check(alice.certificate.serial !== old, "the certificate is the same");
    },

    async "replace the key"() {
        await alice.rekey();
        await alice.login();
        await alice.connect();
        await alice.signed("message.send", { to: bobby.aid, payload: { type: "text", text: "with another key" } });
    },

    async "leave"() {
        for (const agent of agents) same((await agent.session.close()).code, 1000, "the code of the close");
    },
};

await runAll(steps);
