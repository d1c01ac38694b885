"""The message commands of the driver: what an application sends, what it is told, and what was on the wire."""

import asyncio
import itertools
import json
import traceback

from websockets.asyncio.client import ClientConnection

# Between two messages of a talk, in seconds: an SDK needs its time to open an encrypted one.
PAUSE = 0.2


class MessageCommands:
    """The messages of one agent. Whoever inherits has a `client`, waits `until` something holds, and can `recover`."""

    def __init__(self):
        self.told = {"received": [], "undecryptable": [], "ack": [], "recalled": []}
        self.wire = {"sent": [], "heard": []}
        self.acknowledged = []
        self.talk = None
        record(self.wire)

    def listen_for_messages(self):
        for kind, told in self.told.items():
            self.client.on(f"message.{kind}", lambda data, told=told: told.append(plain(data)))

    async def send(self, to, payload, encrypt, **more):
        return await self.client.call("message.send", {"to": to, "payload": payload, "encrypt": encrypt, **more})

    async def send_all(self, to, payloads, encrypt):
        return [await self.send(to, payload, encrypt) for payload in payloads]

    async def message_events(self, kind, count, seconds):
        """Waits until the application was told this often, and gives everything that it was told."""
        told = self.told[kind]
        try:
            await self.until(lambda: len(told) >= count, seconds)
        except TimeoutError as problem:
            raise TimeoutError(f"{len(told)} of {count} {kind}; {problem}") from None
        return told

    async def frames(self, holding):
        """The frames of both directions that hold this text."""
        return {way: [text for text in seen if holding in text] for way, seen in self.wire.items()}

    async def start_talk(self, to, count, encrypt):
        """Sends numbered messages, one after the other, until this many were acknowledged."""
        self.acknowledged = []
        self.talk = asyncio.create_task(self.say_all(to, count, encrypt))
        return {}

    async def say_all(self, to, count, encrypt):
        under_way = set()
        for number in itertools.count(1):
            under_way.add(asyncio.create_task(self.say(to, f"number {number}", encrypt)))
            # An SDK can wait half a minute for an answer that a crash has swallowed; the next message does not.
            _, under_way = await asyncio.wait(under_way, timeout=1, return_when=asyncio.FIRST_COMPLETED)
            if len(self.acknowledged) >= count:
                return
            await self.recover()
            await asyncio.sleep(PAUSE)

    async def say(self, to, words, encrypt):
        try:
            await self.send(to, {"type": "text", "text": words}, encrypt)
            self.acknowledged.append(words)
        except Exception:
            traceback.print_exc()

    async def talked(self, count, seconds):
        """Waits for this many acknowledged messages, and gives their texts."""
        await self.until(lambda: len(self.acknowledged) >= count, seconds)
        return self.acknowledged


def record(frames):
    """Keeps the text of every frame as it was on the wire, so that bytes can be compared with bytes."""
    send, recv = ClientConnection.send, ClientConnection.recv

    async def recorded_send(self, message, *rest, **named):
        frames["sent"].append(message)
        await send(self, message, *rest, **named)

    async def recorded_recv(self, *rest, **named):
        message = await recv(self, *rest, **named)
        frames["heard"].append(message)
        return message

    ClientConnection.send, ClientConnection.recv = recorded_send, recorded_recv


def plain(value):
    """The value as JSON can carry it; whatever else the SDK hands out becomes text."""
    return json.loads(json.dumps(value, default=str))
