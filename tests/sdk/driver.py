"""Drives one unmodified fastaun in its own process; commands and answers are lines of JSON.

The SDK is as it was published. Only the name lookup of this process is changed: every name under the issuer leads to
the server under test, and where that server could not have port 443, port 443 of those names leads to its real port.
Its frames are noted down as they pass.
"""

import asyncio
import dataclasses
import json
import os
import socket
import sys
import traceback
from importlib.metadata import version

import aun_core
from cryptography import x509
from message_commands import MessageCommands, plain

VERSION = tuple(int(part) for part in version("fastaun").split("."))
ONE_WORD = {"connected": "ready", "terminal_failed": "failed", "connection_failed": "failed"}
SPOILED = "spoiled-by-the-test"
# A line of the test can hold the largest message there is.
LINE_BYTES = 4 * 1024 * 1024


def aim(domains):
    """Makes every name under an issuer resolve to the server under test that has it, and nothing else."""
    ask = socket.getaddrinfo

    def getaddrinfo(host, service, *rest, **named):
        name = host.decode() if isinstance(host, bytes) else host
        for issuer, address, port in domains:
            if name is not None and (name == issuer or name.endswith("." + issuer)):
                return ask(address, port if service in (443, "443", "https") else service, *rest, **named)
        return ask(host, service, *rest, **named)

    socket.getaddrinfo = getaddrinfo


class Shared(MessageCommands):
    """What all generations have in common: the client, what it told us, and its state in one vocabulary."""

    def __init__(self, job):
        super().__init__()
        self.job = job
        self.aid = job["aid"]
        self.client = None
        self.retry = None
        self.events = []

    def state(self):
        raw = self.client.state
        word = getattr(raw, "value", raw)
        return ONE_WORD.get(word, word)

    def listen(self):
        for event in ("gateway.disconnect", "connection.error", "app.greeting"):
            self.client.on(event, lambda data, event=event: self.events.append({"event": event, "data": plain(data)}))
        self.listen_for_messages()

    async def ping(self):
        return await self.client.call("meta.ping", {})

    async def call(self, method, params):
        return await self.client.call(method, params)

    async def notify(self, method, params, to):
        await self.client.notify(method, params, to=to)
        return {}

    async def wait(self, state, seconds):
        await self.until(lambda: self.state() == state, seconds)
        return {"state": state}

    async def settle(self, states, seconds):
        await self.until(lambda: self.state() in states, seconds)
        return {"state": self.state()}

    async def recover(self):
        """Does what an application has to do since 0.5: a client that had a call under way when its socket died
        reconnects twice at once, its second session replaces its first, and it gives up on both."""
        if self.state() == "failed" and any(replaced_itself(event) for event in self.events):
            self.events.clear()
            await self.connect(self.retry)
        return {"state": self.state()}

    async def lose(self, seconds):
        """Waits until the client has noticed that its session is gone."""
        await self.until(lambda: self.state() != "ready", seconds)
        return {"state": self.state()}

    async def until(self, holds, seconds):
        deadline = asyncio.get_running_loop().time() + seconds
        while not holds():
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"still {self.state()} after {seconds} s; events: {self.events}")
            await asyncio.sleep(0.05)

    async def look(self):
        return {"state": self.state(), "events": self.events}

    async def websocket_latency(self):
        """Round trip of the last WebSocket ping that the SDK sent by itself; 0 before the first."""
        return {"seconds": self.client._transport._ws.latency}

    async def spoil(self, refresh):
        """Damages the stored access token, and on request the refresh token, as if the server had revoked them."""
        identity = self.client._auth.load_identity()
        damage = {"access_token": SPOILED} | ({"refresh_token": SPOILED} if refresh else {})
        identity.update(damage)
        self.client._auth._persist_identity(identity)
        self.client._identity = {**(self.client._identity or {}), **damage}
        self.client._session_params["access_token"] = SPOILED
        return {}

    async def ocsp_status(self):
        """What the SDK makes of the OCSP answer about the agent's own certificate."""
        auth, gateway = self.client._auth, f"wss://gateway.{self.aid.partition('.')[2]}/aun"
        pems = [auth.load_identity()["cert"], (await auth._fetch_gateway_ca_chain(gateway))[0]]
        own, issuer = (x509.load_pem_x509_certificate(pem.encode()) for pem in pems)
        return await auth._fetch_gateway_ocsp_status(gateway, own, issuer)

    async def close(self):
        if self.client is not None:
            await self.client.close()
        return {}


class Early(Shared):
    """0.2 and 0.3: one client object does everything."""

    def __init__(self, job):
        super().__init__(job)
        options = {"aun_path": job["home"], "root_ca_path": job["root"], "seed_password": "seed"}
        self.client = aun_core.AUNClient({**options, "verify_ssl": True, "aid": self.aid})
        self.listen()

    async def register(self):
        if VERSION < (0, 3):
            done = await self.client.auth.create_aid({"aid": self.aid})
        else:
            done = await self.client.auth.register_aid({"aid": self.aid})
        return {"aid": done["aid"], "certificate": self.certificate()}

    async def connect(self, retry):
        self.retry = retry
        session = await self.client.auth.authenticate({"aid": self.aid})
        await self.client.connect(session, {"retry": retry} if retry else None)
        return {"state": self.state()}

    async def upload(self, content):
        if VERSION >= (0, 3):
            content = await self.client.auth.sign_agent_md(content)
        return await self.client.auth.upload_agent_md(content)

    async def download(self, aid):
        return {"content": await self.client.auth.download_agent_md(aid)}

    async def trust(self, issuer):
        """Imports the signed list of roots over HTTP, checks the one over RPC, and adopts the issuer's root."""
        listed = await self.client.meta.refresh_trust_roots(issuer=issuer)
        told = self.client.meta.verify_trust_roots(await self.client.meta.trust_roots())
        await self.client.meta.update_issuer_root_cert(issuer)
        return {"listed": listed["fingerprints"], "told": [root["fingerprint_sha256"] for root in told["imported"]]}

    def certificate(self):
        return self.client._auth.load_identity(self.aid)["cert"]


class Stored(Shared):
    """0.4 and later: an AIDStore keeps identities, a client is made from one of them."""

    def __init__(self, job):
        super().__init__(job)
        self.store = aun_core.AIDStore(job["home"], "seed", verify_ssl=True, root_ca_path=job["root"])

    async def register(self):
        more = {"type": "agent"} if VERSION > (0, 5, 17) else {}
        good(await self.store.register(self.aid, **more))
        return {"aid": self.aid, "certificate": self.certificate()}

    async def connect(self, retry):
        self.retry = retry
        identity = good(self.store.load(self.aid))["aid"]
        if self.job.get("slot"):
            identity = dataclasses.replace(identity, slot_id=self.job["slot"])
        self.client = aun_core.AUNClient(identity)
        self.listen()
        options = {f"retry_{name}": value for name, value in retry.items()} if retry else None
        await self.client.connect(options)
        return {"state": self.state()}

    async def renew(self):
        done = good(await self.store.renew_cert(self.aid))
        return {"fingerprint": done["new_fingerprint"], "certificate": self.certificate()}

    async def rekey(self):
        done = good(await self.store.rekey(self.aid))
        return {"fingerprint": done["new_fingerprint"], "certificate": self.certificate()}

    async def upload(self, content):
        return good(await self.store.upload_agent_md(self.aid, content))

    async def download(self, aid):
        return good(await self.store.download_agent_md(aid))

    async def resolve(self, aid):
        """Fetches and verifies somebody else's certificate."""
        found = good(await self.store.resolve(aid, {"skip_agent_md": True}))
        return {"certificate": found["aid"].cert_pem}

    async def diagnose(self):
        return good(await self.store.diagnose(self.aid))

    def certificate(self):
        return good(self.store.load(self.aid))["aid"].cert_pem


def replaced_itself(event):
    if event["event"] != "gateway.disconnect" or event["data"]["reason"] != "replaced_by_new_connection":
        return False
    detail = event["data"]["detail"]
    return all(detail[name] == detail["evicted_by"][name] for name in ("device_id", "slot_id"))


def good(result):
    """What a Result of the SDK holds, or its error as an exception."""
    if not result.ok:
        raise RuntimeError(f"{result.error.code}: {result.error.message}") from result.error.cause
    return result.data


async def answer(agent, request):
    try:
        done = await getattr(agent, request["do"])(**request.get("with", {}))
        return {"id": request["id"], "done": plain(done)}
    except Exception as problem:
        traceback.print_exc()
        text = f"{type(problem).__name__}: {problem}"
        return {"id": request["id"], "failed": text, "code": getattr(problem, "code", None)}


async def main():
    job = json.loads(sys.argv[1])
    aim(job["domains"])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Whatever the SDK prints goes to the log; the answers keep the pipe for themselves.
    agent = Early(job) if VERSION < (0, 4) else Stored(job)

    requests = asyncio.StreamReader(limit=LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(requests), sys.stdin)
    while line := await requests.readline():
        print(json.dumps(await answer(agent, json.loads(line))), file=answers)


asyncio.run(main())
