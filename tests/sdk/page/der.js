// As much of DER and X.509 as a browser client needs: WebCrypto reads no certificates, and its signatures are the two numbers side
// by side, where the protocol has them as a SEQUENCE of two INTEGERs.

const CURVES = { "2a8648ce3d030107": "P-256", "2b81040022": "P-384" };
const HASHES = { "P-256": "SHA-256", "P-384": "SHA-384" };

export const utf8 = text => new TextEncoder().encode(text);
export const base64 = bytes => btoa(String.fromCharCode(...new Uint8Array(bytes)));
export const fromBase64 = text => Uint8Array.from(atob(text), char => char.charCodeAt(0));
export const hex = bytes => [...new Uint8Array(bytes)].map(byte => byte.toString(16).padStart(2, "0")).join("");
export const sha256 = async bytes => hex(await crypto.subtle.digest("SHA-256", bytes));

export function certificates(pem) {
    const blocks = pem.matchAll(/-----BEGIN CERTIFICATE-----([^-]*)-----END CERTIFICATE-----/g);
    return [...blocks].map(([, text]) => certificate(fromBase64(text.replace(/\s/g, ""))));
}

function certificate(der) {
    const [tbs, , signature] = children(elements(der)[0]);
    const fields = children(tbs);
    const version = fields[0].tag === 0xa0 ? 1 : 0;
    const [serial, , issuer, , subject, key] = fields.slice(version);
    return {
        der,
        tbs: tbs.whole,
        serial: hex(serial.content),
        issuer: hex(issuer.whole),
        subject: hex(subject.whole),
        key: key.whole,
        signature: signature.content.slice(1),
    };
}

export function curve(spki) {
    const [algorithm] = children(elements(spki)[0]);
    const found = CURVES[hex(children(algorithm)[1].content)];
    if (!found) throw new Error("the key is on neither P-256 nor P-384");
    return found;
}

// Whether a key of this curve, and no other, made the signature, with the hash that goes with the curve.
export async function verifies(spki, namedCurve, signature, bytes) {
    const key = await crypto.subtle.importKey("spki", spki, { name: "ECDSA", namedCurve }, false, ["verify"]);
    const raw = rawSignature(signature, namedCurve === "P-256" ? 32 : 48);
    return crypto.subtle.verify({ name: "ECDSA", hash: HASHES[namedCurve] }, key, raw, bytes);
}

function rawSignature(der, size) {
    const raw = new Uint8Array(2 * size);
    children(elements(der)[0]).forEach((number, index) => {
        const digits = significant(number.content);
        raw.set(digits, (index + 1) * size - digits.length);
    });
    return raw;
}

export function derSignature(raw) {
    const bytes = new Uint8Array(raw);
    const half = bytes.length / 2;
    const numbers = [integer(bytes.slice(0, half)), integer(bytes.slice(half))].flat();
    return Uint8Array.from([0x30, numbers.length, ...numbers]);
}

function integer(bytes) {
    const digits = significant(bytes);
    const content = digits[0] & 0x80 ? [0, ...digits] : [...digits];
    return [0x02, content.length, ...content];
}

function significant(bytes) {
    const first = bytes.findIndex(byte => byte !== 0);
    return first < 0 ? bytes.slice(-1) : bytes.slice(first);
}

const children = element => elements(element.content);

function elements(bytes) {
    const found = [];
    for (let at = 0; at < bytes.length; at = found.at(-1).end) found.push(element(bytes, at));
    return found;
}

function element(bytes, at) {
    let start = at + 2;
    let length = bytes[at + 1];
    if (length & 0x80) {
        const digits = bytes.slice(start, start + (length & 0x7f));
        start += digits.length;
        length = digits.reduce((sum, byte) => sum * 256 + byte, 0);
    }
    const end = start + length;
    if (!(end <= bytes.length)) throw new Error(`DER ends before its element at ${at} does`);
    return { tag: bytes[at], whole: bytes.slice(at, end), content: bytes.slice(start, end), end };
}
