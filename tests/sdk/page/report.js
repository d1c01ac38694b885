// Steps that are run one after the other and reported to whoever serves the page, and what they check with.

import { within } from "./connection.js";

// A step that fails does not keep the others from being tried.
export async function runAll(steps) {
    for (const [step, run] of Object.entries(steps)) {
        const began = performance.now();
        const error = await run().then(() => null, failure => String(failure));
        await report({ step, error, ms: Math.round(performance.now() - began) });
    }
    await report({ done: true });
}

function report(what) {
    return fetch("/report", { method: "POST", body: JSON.stringify(what) });
}

export async function json(url) {
    const answer = await within(url, fetch(url));
    same(answer.status, 200, url);
    return answer.json();
}

export function check(holds, otherwise) {
    if (!holds) throw new Error(otherwise);
}

export function same(found, expected, what) {
    const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
    check(a === b, `${what}: ${a} instead of ${b}`);
}
