// A socket of the gateway as a page has it: the browser's own WebSocket, which sends an Origin and cannot send headers.

const SECONDS = 20;

export class Connection {
    // Opens a socket and waits for its challenge.
    static async open(url) {
        const connection = new Connection(url);
        connection.nonce = (await connection.hear("challenge")).nonce;
        return connection;
    }

    constructor(url) {
        this.heard = [];
        this.waiting = [];
        this.asked = new Map();
        this.socket = new WebSocket(url);
        this.socket.onmessage = event => this.take(JSON.parse(event.data));
        this.closed = new Promise(resolve => { this.socket.onclose = resolve; });
        this.closed.then(({ code }) => {
            for (const { reject } of [...this.asked.values(), ...this.waiting]) {
                reject(new Error(`the socket was closed with ${code}`));
            }
        });
    }

    take(frame) {
        if ("id" in frame) {
            this.asked.get(frame.id)?.resolve(frame);
            this.asked.delete(frame.id);
            return;
        }
        const index = this.waiting.findIndex(({ wanted }) => wanted(frame));
        if (index < 0) this.heard.push(frame);
        else this.waiting.splice(index, 1)[0].resolve(frame.params);
    }

    async call(method, params) {
        const id = `page-${crypto.randomUUID()}`;
        const answer = new Promise((resolve, reject) => this.asked.set(id, { resolve, reject }));
        this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
        const { result, error } = await within(method, answer);
        if (error) throw new Error(`${method}: ${error.code} ${error.message}`);
        return result;
    }

    // The params of the first notification of this method that is not taken yet, now or later.
    hear(method, about = () => true) {
        const wanted = frame => frame.method === method && about(frame.params);
        const index = this.heard.findIndex(wanted);
        if (index >= 0) return Promise.resolve(this.heard.splice(index, 1)[0].params);
        return within(method, new Promise((resolve, reject) => this.waiting.push({ wanted, resolve, reject })));
    }

    close() {
        this.socket.close(1000);
        return within("the close", this.closed);
    }
}

// One call on a socket of its own, as before a login.
export async function callOnce(url, method, params) {
    const connection = await Connection.open(url);
    try {
        return await connection.call(method, params);
    } finally {
        await connection.close();
    }
}

export function within(what, promise) {
    const late = new Promise((_, reject) => {
        setTimeout(() => reject(new Error(`${what} did not come within ${SECONDS} s`)), SECONDS * 1000);
    });
    return Promise.race([promise, late]);
}
