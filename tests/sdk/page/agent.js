// An agent in a page: a key that WebCrypto never gives away, registered, logged in, connected.

import { callOnce, Connection, within } from "./connection.js";
import { base64, certificates, curve, derSignature, fromBase64, sha256, utf8, verifies } from "./der.js";

const P256 = { name: "ECDSA", namedCurve: "P-256" };
const SHA256 = { name: "ECDSA", hash: "SHA-256" };

export class Agent {
    // `server` has the URL of the socket and the origin of its HTTP.
    constructor(server, aid) {
        this.server = server;
        this.aid = aid;
        this.device = crypto.randomUUID();
    }

    async register() {
        await this.newKey();
        const created = await callOnce(this.server.url, "auth.create_aid", {
            aid: this.aid, public_key: this.publicKey, curve: "P-256",
        });
        this.keep(created.cert);
    }

    async newKey() {
        this.keys = await crypto.subtle.generateKey(P256, false, ["sign", "verify"]);
        this.publicKey = base64(await crypto.subtle.exportKey("spki", this.keys.publicKey));
    }

    keep(pem) {
        const [certificate] = certificates(pem);
        if (base64(certificate.key) !== this.publicKey) throw new Error("the certificate is of another key");
        this.pem = pem;
        this.certificate = certificate;
    }

    async sign(text) {
        return base64(derSignature(await crypto.subtle.sign(SHA256, this.keys.privateKey, utf8(text))));
    }

    async fingerprint() {
        return `sha256:${await sha256(this.certificate.der)}`;
    }

    // The first half of a login, and the server's own proof of who it is, checked as the SDK for browsers does: by a
    // certificate that leads to the chain of the issuer, over the text of the nonce, with SHA-256 and P-256 only.
    async begin() {
        const nonce = base64(crypto.getRandomValues(new Uint8Array(12)));
        const answer = await callOnce(this.server.url, "auth.aid_login1", {
            aid: this.aid, cert: this.pem, client_nonce: nonce,
        });
        const [certificate] = certificates(answer.auth_cert);
        await this.verifyChain(certificate);
        if (curve(certificate.key) !== "P-256") throw new Error(`the login key is on ${curve(certificate.key)}, not P-256`);
        const signature = fromBase64(answer.client_nonce_signature);
        if (!await verifies(certificate.key, "P-256", signature, utf8(nonce))) {
            throw new Error("aid_login1 server auth signature verification failed");
        }
        return answer;
    }

    async verifyChain(certificate) {
        const chain = certificates(await (await this.get("/pki/chain")).text());
        const root = chain.at(-1);
        for (const [index, child] of [certificate, ...chain].entries()) {
            const issuer = chain[index] ?? root;
            const signed = await verifies(issuer.key, curve(issuer.key), child.signature, child.tbs);
            if (child.issuer !== issuer.subject || !signed) throw new Error(`the next of the chain did not sign certificate ${index}`);
        }
        const crl = await (await this.get("/pki/crl.json")).json();
        const number = serial => BigInt(`0x${serial}`);
        const revoked = crl.revoked_serials.some(serial => number(serial) === number(certificate.serial));
        if (revoked) throw new Error("the CRL has the login certificate");
        const ocsp = await (await this.get(`/pki/ocsp/${certificate.serial}`)).json();
        if (ocsp.status !== "good") throw new Error(`OCSP says ${ocsp.status} about the login certificate`);
    }

    async login() {
        const begun = await this.begin();
        const time = String(Math.floor(Date.now() / 1000));
        this.tokens = await callOnce(this.server.url, "auth.aid_login2", {
            aid: this.aid, request_id: begun.request_id, nonce: begun.nonce,
            client_time: time, signature: await this.sign(`${begun.nonce}:${time}`),
        });
    }

    async refresh() {
        const answer = await callOnce(this.server.url, "auth.refresh_token", {
            aid: this.aid, refresh_token: this.tokens.refresh_token, device_id: this.device, slot_id: "default",
        });
        if (answer.success !== true) throw new Error(`auth.refresh_token: ${answer.error}`);
        this.tokens = answer;
    }

    async renew() {
        const begun = await this.begin();
        const renewed = await callOnce(this.server.url, "auth.renew_cert", {
            aid: this.aid, request_id: begun.request_id, nonce: begun.nonce, signature: await this.sign(begun.nonce),
        });
        this.keep(renewed.cert);
    }

    async rekey() {
        const begun = await this.begin();
        const old = { keys: this.keys };
        await this.newKey();
        const signature = await this.sign.call(old, begun.nonce + this.publicKey);
        const rekeyed = await callOnce(this.server.url, "auth.rekey", {
            aid: this.aid, request_id: begun.request_id, nonce: begun.nonce, new_public_key: this.publicKey, signature,
        });
        this.keep(rekeyed.cert);
    }

    async connect() {
        const connection = await Connection.open(this.server.url);
        const answer = await connection.call("auth.connect", {
            nonce: connection.nonce,
            auth: { method: "kite_token", token: this.tokens.access_token },
            protocol: { min: "1.0", max: "1.0" },
            device: { id: this.device, type: "sdk" },
            client: { slot_id: "default", sdk_lang: "javascript", sdk_version: "0.5.4" },
            delivery_mode: { mode: "fanout" },
            capabilities: {
                e2ee: true, group_e2ee: true, supported_p2p_e2ee: ["e2ee_v2"], supported_group_e2ee: ["group_e2ee_v2"],
            },
        });
        if (answer.status !== "ok") throw new Error(`auth.connect: ${JSON.stringify(answer)}`);
        this.session = connection;
    }

    // A call over the session that carries the caller's own signature.
    async signed(method, params) {
        const timestamp = String(Math.floor(Date.now() / 1000));
        const hash = await sha256(utf8(JSON.stringify(sorted(params))));
        const client_signature = {
            aid: this.aid, cert_fingerprint: await this.fingerprint(), timestamp, params_hash: hash,
            signature: await this.sign(`${method}|${this.aid}|${timestamp}|${hash}`),
        };
        return this.session.call(method, { ...params, client_signature });
    }

    async signedDocument(text) {
        const signature = await this.sign(text);
        const timestamp = Math.floor(Date.now() / 1000);
        return `${text}<!-- AUN-SIGNATURE\ncert_fingerprint: ${await this.fingerprint()}\ntimestamp: ${timestamp}\n`
            + `signature: ${signature}\n-->`;
    }

    get(path) {
        return within(path, fetch(this.server.origin + path));
    }
}

function sorted(value) {
    if (Array.isArray(value)) return value.map(sorted);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.keys(value).sort().map(key => [key, sorted(value[key])]));
}
