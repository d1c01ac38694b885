// Requests to the agent API. They go to the server of this page, which passes them on to the gateway.

const API = "/api/v1/agent";
const TOKEN = "aund.token";

// What the server refused, or `status` 0 where it did not answer.
export class ApiError extends Error {
    constructor(status, detail, retryAfter = null) {
        super(detail);
        this.status = status;
        // Seconds, if the server said when to try again.
        this.retryAfter = retryAfter;
    }
}

// The address that `aund demo --web` prints has the token in its fragment. It is removed from the address bar and the history of
// the browser, and kept for this tab.
export function takeToken() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (!given) return;
    sessionStorage.setItem(TOKEN, given);
    history.replaceState(null, "", location.pathname + location.search);
}

// The response, if the server accepted the request.
export async function request(method, path, { body, headers = {}, signal } = {}) {
    const token = sessionStorage.getItem(TOKEN);
    const answer = await send(method, API + path, { body, headers, signal }, token);
    if (answer.status !== 401) return accepted(answer);
    const renewed = await renew(token, signal);
    return accepted(renewed ? await send(method, API + path, { body, headers, signal }, renewed) : answer);
}

export async function requestJson(method, path, value, options = {}) {
    const body = value === undefined ? undefined : JSON.stringify(value);
    const headers = body === undefined ? {} : { "Content-Type": "application/json" };
    return (await request(method, path, { ...options, body, headers })).json();
}

async function send(method, url, { body, headers, signal }, token) {
    try {
        const authorization = token ? { Authorization: `Bearer ${token}` } : {};
        return await fetch(url, { method, body, headers: { ...headers, ...authorization }, signal, cache: "no-store" });
    } catch (error) {
        if (signal?.aborted) throw error;
        throw new ApiError(0, "no answer");
    }
}

// A token is valid for an hour. The server of this page has the key of the agent, and exchanges a token that it has given.
async function renew(token, signal) {
    if (!token) return null;
    const answer = await send("POST", "/token", { headers: {}, signal }, token);
    if (!answer.ok) return null;
    const { access_token: renewed } = await answer.json();
    sessionStorage.setItem(TOKEN, renewed);
    return renewed;
}

async function accepted(answer) {
    if (answer.ok) return answer;
    const body = await answer.json().catch(() => ({}));
    const detail = typeof body.detail === "string" ? body.detail : "";
    const [first] = Array.isArray(body.errors) ? body.errors : [];
    const where = first?.message ? ` (${[first.path, first.message].filter(Boolean).join(": ")})` : "";
    const seconds = Number.parseInt(answer.headers.get("Retry-After") ?? "", 10);
    throw new ApiError(answer.status, detail + where, Number.isFinite(seconds) ? seconds : null);
}

// The same picture at the origin of this page, which is the only one that it may load from. Nothing for a URL of another kind.
export function pictureUrl(url) {
    const { pathname, search } = new URL(url, location.origin);
    return pathname.startsWith(`${API}/attachments/`) ? pathname + search : null;
}

// What a person is told, and what they can do about it.
export function explain(error) {
    if (!(error instanceof ApiError)) return { text: "The page has an error: reload it.", act: "reload" };
    const { status, message, retryAfter } = error;
    const after = message ? ` It says: ${message}.` : "";
    switch (status) {
        case 0:
            return { text: "The server of this page does not answer. Is aund demo --web still running?", act: "retry" };
        case 401:
            return { text: "Your access has expired. Run aund demo --web again and open the address that it prints." };
        case 403:
            return { text: "This conversation belongs to another agent.", act: "new" };
        case 409:
            return { text: `The server has another message for this run.${after}`, act: "again" };
        case 413:
        case 422:
            return { text: `The server does not accept this message: ${message || "it is too large"}.`, act: "edit" };
        case 429:
            return { text: "The server has too many requests at the moment.", act: "retry", seconds: retryAfter ?? 5 };
        case 404:
            return { text: `The server did not find what this page asked for.${after}`, act: "retry" };
        case 502:
        case 503:
        case 504:
            return { text: "The server is not available at the moment.", act: "retry", seconds: retryAfter ?? 0 };
        default:
            return { text: `The server answered with status ${status}.${after}`, act: "retry" };
    }
}
