// A page of another origin that shows what an agent asks for, and grants it for its user: the manifest without any token, the grant with
// the token of the user.

import { Agent } from "./agent.js";
import { within } from "./connection.js";
import { check, json, runAll, same } from "./report.js";

const { issuer, port } = Object.fromEntries(new URLSearchParams(location.search));
const host = name => `https://${name}.${issuer}${port === "443" ? "" : `:${port}`}`;
const server = {};
const helper = new Agent(server, `helper.${issuer}`);
const person = new Agent(server, `person.${issuer}`);
let agent, etag, relation;

const manifest = {
    schema_version: "1.0",
    agent_version: "1.0.0",
    tools: [{
        name: "read_file",
        description_i18n_key: "agent.cap.read_file.description",
        input_schema: {},
        permission_scope: "filesystem:read",
    }],
    permission_scopes: [
        {
            id: "filesystem:read",
            label_i18n_key: "agent.scope.filesystem_read.label",
            description_i18n_key: "agent.scope.filesystem_read.description",
            sensitivity: "medium",
        },
        {
            id: "shell:exec",
            label_i18n_key: "agent.scope.shell_exec.label",
            label_fallback: "Run commands",
            description_fallback: "Run commands in a shell on this device",
            sensitivity: "high",
        },
    ],
    capability_flags: { supports_artifacts: true },
};

const bearer = who => ({ "Authorization": `Bearer ${who.tokens.access_token}` });
const ask = (path, options = {}) => within(path, fetch(server.origin + path, options));
const send = (method, path, body, who) => ask(path, {
    method,
    headers: { ...bearer(who), "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
});

// What a person sees: a line for each scope, in the language of the page.
function shown(scopes, texts, language) {
    const main = document.querySelector("main");
    main.replaceChildren(...scopes.map(({ id, sensitivity }) => {
        const { label, description } = texts[id][language] ?? texts[id][""];
        const line = document.createElement("p");
        line.textContent = `${label}: ${description} (${sensitivity})`;
        return line;
    }));
    return main.innerText;
}

const steps = {
    async "find the gateway"() {
        const found = await json(`${host("helper")}/.well-known/aun-gateway`);
        server.url = found.gateways[0].url;
        server.origin = new URL(server.url.replace(/^wss:/, "https:")).origin;
        check(server.origin !== location.origin, "the page is of the server's origin");
        const { features } = await json(`${server.origin}/capabilities`);
        check(features.includes("consent_pages") && features.includes("scope_texts"), `the tags are ${features}`);
    },

    async "an agent and a person log in"() {
        for (const who of [helper, person]) {
            await who.register();
            await who.login();
        }
    },

    async "the agent declares what it asks for"() {
        const body = { jsonrpc: "2.0", id: 1, method: "agent.create", params: { name: "Helper", capability_manifest: manifest } };
        const { result, error } = await (await send("POST", "/rpc", body, helper)).json();
        check(result, `agent.create: ${JSON.stringify(error)}`);
        agent = result.agent;
    },

    async "nobody reads it without a token as long as it describes itself to nobody"() {
        const refusals = [];
        for (const id of [agent.id, helper.aid, `nobody.${issuer}`, "0190163d-868b-7ce2-a5f1-c1b6d0b3a7e4"]) {
            const refused = await ask(`/agents/${id}`);
            refusals.push([refused.status, await refused.text()]);
        }
        for (const refused of refusals) same(refused, refusals[0], "a refusal");
        same(refusals[0][0], 401, "the status of a refusal, which the page may read");
    },

    async "the agent describes itself to everybody"() {
        const url = `${host("helper")}/agent.md`;
        const text = await helper.signedDocument(
            `---\naid: "${helper.aid}"\nname: "Helper"\ntype: "agent"\nversion: "1.0.0"\ndescription: "Reads files"\n---\n\n# Helper\n`);
        const put = await within(url, fetch(url, { method: "PUT", body: text, headers: bearer(helper) }));
        same(put.status, 200, await put.text());
    },

    async "the page reads the manifest without a token"() {
        const read = await ask(`/agents/${helper.aid}`);
        same(read.status, 200, "the status");
        etag = read.headers.get("ETag");
        check(etag === `"${agent.capability_manifest_hash}"`, `the ETag is ${etag}`);
        const { data } = await read.json();
        same(data.id, agent.id, "which agent");
        same(data.capability_manifest.tools[0].name, "read_file", "the tool");
        for (const hidden of ["owner_id", "connection_mode", "webhook_url", "webhook_unreachable"]) {
            check(!(hidden in data), `${hidden} is shown`);
        }
        const scopes = data.capability_manifest.permission_scopes;
        same(shown(scopes, data.scope_texts, "zh").split(/\n+/),
            ["读取本地文件: 读取此设备上的文件内容 (medium)", "Run commands: Run commands in a shell on this device (high)"],
            "what a person sees");
        check(shown(scopes, data.scope_texts, "en").startsWith("Read local files: "), "what a person sees in English");
    },

    async "the page asks whether it has changed"() {
        const again = await ask(`/agents/${helper.aid}`, { headers: { "If-None-Match": etag } });
        same(again.status, 304, "the status");
    },

    async "who has a token is shown more of the same version"() {
        const { data } = await (await ask(`/agents/${helper.aid}`, { headers: bearer(person) })).json();
        same(data.owner_id, helper.aid, "the owner");
        same((await ask(`/agents/${helper.aid}`, { headers: { "Authorization": "Bearer nonsense" } })).status, 401, "a bad token");
    },

    async "the person grants a scope"() {
        const granted = await send("POST", "/h2a/relations", { agent_id: helper.aid, granted_scopes: ["filesystem:read"] }, person);
        same(granted.status, 201, "the status");
        relation = (await granted.json()).data;
        same([relation.user_id, relation.granted_scopes], [person.aid, ["filesystem:read"]], "the relation");
        const { data } = await (await ask("/h2a/relations", { headers: bearer(person) })).json();
        same(data.map(one => one.id), [relation.id], "the relations of the person");
    },

    async "the person grants less, and then nothing"() {
        const path = `/h2a/relations/${relation.id}`;
        const less = await send("PATCH", path, { granted_scopes: [] }, person);
        same([less.status, (await less.json()).data.granted_scopes], [200, []], "the relation");
        same((await send("DELETE", path, undefined, person)).status, 204, "the end of the relation");
        const none = await send("POST", "/h2a/relations", { agent_id: helper.aid }, person);
        same([none.status, (await none.json()).data.granted_scopes], [201, []], "a grant that names no scopes");
    },

    async "a refusal can be read"() {
        const refused = await send("POST", "/h2a/relations", { agent_id: `nobody.${issuer}` }, person);
        same([refused.status, (await refused.json()).error.code], [404, "AGENT_NOT_FOUND"], "the refusal");
        const without = await ask("/h2a/relations");
        same(without.status, 401, "relations without a token");
    },

    async "the browser keeps the page from all else"() {
        const kept = async (path, options) => {
            const refused = await within(path, fetch(server.origin + path, options).then(() => null, error => error));
            check(refused instanceof TypeError, `${options.method ?? "GET"} ${path} is open to pages`);
        };
        await kept(`/agents/${helper.aid}`, { credentials: "include" });
        await kept("/h2a/relations", { credentials: "include" });
        await kept(`/agents/${helper.aid}`, { method: "PATCH", headers: bearer(helper), body: "{}" });
        await kept(`/agents/${helper.aid}`, { method: "DELETE", headers: bearer(helper) });
        await kept("/agents", { headers: bearer(helper) });
        await json(`${server.origin}/health`);
    },
};

await runAll(steps);
