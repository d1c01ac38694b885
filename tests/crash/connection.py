"""A bare agent: a key, a WebSocket, and the calls of the identity protocol written out."""

import asyncio
import base64
import itertools
import json
import secrets
import time

import websockets
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


class Refused(Exception):
    """The server answered, and the answer was no."""

    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code = error["code"]
        self.retryable = error.get("data", {}).get("retryable", False)


class Key:
    """A P-256 key, and what is derived from it on the wire."""

    def __init__(self):
        self.private = ec.generate_private_key(ec.SECP256R1())
        spki = self.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.public = base64.b64encode(spki).decode()

    def sign(self, text):
        return base64.b64encode(self.private.sign(text.encode(), ec.ECDSA(hashes.SHA256()))).decode()


class Connection:
    """One socket to the gateway, before and after auth.connect."""

    def __init__(self, socket, nonce):
        self.socket = socket
        self.nonce = nonce

    async def call(self, method, **params):
        call_id = secrets.token_hex(4)
        await self.socket.send(json.dumps({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}))
        while True:
            frame = json.loads(await self.socket.recv())
            if frame.get("id") == call_id:
                break
        if "error" in frame:
            raise Refused(frame["error"])
        return frame["result"]

    async def register(self, aid, key):
        return (await self.call("auth.create_aid", aid=aid, public_key=key.public, curve="P-256"))["cert"]

    async def login(self, aid, key, certificate):
        first = await self.call("auth.aid_login1", aid=aid, cert=certificate, client_nonce=secrets.token_urlsafe(12))
        client_time = str(time.time())
        return await self.call(
            "auth.aid_login2",
            aid=aid,
            request_id=first["request_id"],
            nonce=first["nonce"],
            client_time=client_time,
            signature=key.sign(f"{first['nonce']}:{client_time}"),
        )

    async def refresh(self, token):
        return await self.call("auth.refresh_token", refresh_token=token)

    async def connect(self, token, device=None):
        return await self.call(
            "auth.connect",
            nonce=self.nonce,
            auth={"method": "kite_token", "token": token},
            protocol={"min": "1.0", "max": "1.0"},
            device={"id": device or secrets.token_hex(8), "type": "sdk"},
            client={"slot_id": "default"},
            delivery_mode={"mode": "fanout", "routing": "", "affinity_ttl_ms": 0},
            capabilities={},
        )


class opened:
    """`async with opened(server) as connection`: a fresh socket whose challenge has been read."""

    def __init__(self, server):
        url = f"ws://{server.gateway}:{server.plain_port}/aun"
        self.dial = websockets.connect(url, host=server.address, compression=None, close_timeout=1)

    async def __aenter__(self):
        socket = await self.dial.__aenter__()
        try:
            return Connection(socket, json.loads(await socket.recv())["params"]["nonce"])
        except BaseException as problem:  # Nobody else knows of the socket yet.
            await self.dial.__aexit__(type(problem), problem, None)
            raise

    async def __aexit__(self, *problem):
        await self.dial.__aexit__(*problem)


class Session:
    """A session that many calls share: an answer finds its call by id, and events go to one listener."""

    def __init__(self, connection, heard=lambda method, params: None):
        self.socket = connection.socket
        self.heard = heard
        self.numbers = itertools.count(1)
        self.waiting = {}
        self.reader = asyncio.create_task(self._read())

    async def call(self, method, **params):
        number = next(self.numbers)
        answer = self.waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self.socket.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
            frame = await answer
        finally:
            self.waiting.pop(number, None)
            if answer.done():
                answer.exception()  # Looked at, so that nobody complains where sending has failed before.
        if "error" in frame:
            raise Refused(frame["error"])
        return frame["result"]

    async def _read(self):
        try:
            while True:
                frame = json.loads(await self.socket.recv())
                if "method" in frame:
                    self.heard(frame["method"], frame["params"])
                elif frame["id"] in self.waiting:
                    self.waiting[frame["id"]].set_result(frame)
        except websockets.ConnectionClosed:
            self._fail(ConnectionError("the server went away"))
        except Exception as problem:  # A listener that fails must fail the test, and every call of this session with it.
            self._fail(problem)
            raise

    def _fail(self, problem):
        for answer in self.waiting.values():
            if not answer.done():
                answer.set_exception(problem)
