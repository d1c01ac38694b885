"""kill -9 while agents write, read, acknowledge and recall: nothing acknowledged is lost, and nothing is there twice.

One data folder lives through all rounds. A round is: everybody connects, what was cut off is sent again with the same
message id, every inbox is examined, then there is load until the server is killed at a random moment. In the end all
inboxes are read once more from the beginning. AUND_CRASH_ROUNDS and AUND_CRASH_SEED steer it.
"""

import asyncio
import contextlib
import itertools
import os
import random
import secrets
import tempfile

import websockets
from aund import Aund
from inbox import BAD, Findings, Inbox, Message
from wire import Key, Line, opened

STORE = os.environ.get("AUND_TEST_STORE", "sqlite")
ROUNDS = int(os.environ.get("AUND_CRASH_ROUNDS", {"sqlite": "300"}.get(STORE, "100")))
SEED = int(os.environ.get("AUND_CRASH_SEED", secrets.randbelow(1_000_000)))
SENDERS = 3
IN_FLIGHT = 4
RECEIVERS = 3
DEVICES = ("phone", "desk")
LOAD_SECONDS = (0.02, 0.4)
# One sender here writes more than anybody does in life.
LIMITS = {"calls_per_second": 1_000_000, "connects_per_second": 100_000}
LOST = (OSError, EOFError, websockets.WebSocketException)


def test_what_was_acknowledged_is_there_once_after_kill_9():
    print(f"\nseed {SEED}, {ROUNDS} rounds of messages, store {STORE}", flush=True)
    with tempfile.TemporaryDirectory(prefix="aund-") as folder:
        server = Aund(folder, limits=LIMITS)
        try:
            found = asyncio.run(Rounds(server, random.Random(SEED)).run())
        finally:
            server.stop()

    assert found.counts["rows seen"], "no message was kept: the rounds are too short to prove anything"
    assert not any(found.counts[what] for what in BAD), "\n".join(found.words)


class Rounds:
    """Everything that the test knows, and the server that it holds to it."""

    def __init__(self, server, chance):
        self.server = server
        self.chance = chance
        self.found = Findings()
        self.messages = {}
        self.fresh = []
        self.recalled = []
        self.numbers = itertools.count(1)
        self.senders = [f"sender{number}.{server.issuer}" for number in range(SENDERS)]
        self.receivers = [f"reader{number}.{server.issuer}" for number in range(RECEIVERS)]
        self.inboxes = [Inbox(aid, device, self.messages, self.found) for aid in self.receivers for device in DEVICES]
        self.tokens = {}

    async def run(self):
        self.server.start()
        for aid in self.senders + self.receivers:
            await self.sign_up(aid)
        for number in range(1, ROUNDS + 1):
            async with self.everybody() as lines:
                await self.settle(lines)
                await self.load(lines)
            self.server.start()
            if number % 50 == 0 or number == ROUNDS:
                print(f"round {number}: {self.found}", flush=True)
        async with self.everybody() as lines:
            await self.settle(lines)
            for inbox in self.inboxes:
                await inbox.read_again(lines[inbox.name])
        print(f"read again: {self.found}", flush=True)
        return self.found

    async def sign_up(self, aid):
        key = Key()
        async with opened(self.server) as wire:
            certificate = await wire.register(aid, key)
            self.tokens[aid] = (await wire.login(aid, key, certificate))["access_token"]

    @contextlib.asynccontextmanager
    async def everybody(self):
        """A session for every sender and for every device of every receiver."""
        async with contextlib.AsyncExitStack() as stack:
            lines = {aid: await self.line(stack, aid, "desk") for aid in self.senders}
            for inbox in self.inboxes:
                lines[inbox.name] = await self.line(stack, inbox.aid, inbox.device)
            yield lines

    async def line(self, stack, aid, device):
        wire = await stack.enter_async_context(opened(self.server))
        await wire.connect(self.tokens[aid], device)
        return Line(wire)

    async def settle(self, lines):
        """Sends again what had no answer, then holds every inbox to what was acknowledged."""
        fresh, self.fresh = self.fresh, []
        recalled, self.recalled = self.recalled, []
        for message in fresh:
            if not message.acknowledged:
                await lines[message.sender].call("message.send", **message.params())
                self.found.add("retried sends")
        for inbox in self.inboxes:
            await inbox.examine(lines[inbox.name], fresh, recalled)

    async def load(self, lines):
        """Everybody works until the server is gone."""
        for inbox in self.inboxes:
            lines[inbox.name].heard = inbox.listen()
        jobs = [self.write(lines[aid], aid) for aid in self.senders for _ in range(IN_FLIGHT)]
        jobs += [inbox.keep_up(lines[inbox.name], self.chance) for inbox in self.inboxes]
        tasks = [asyncio.create_task(until_gone(job)) for job in jobs]
        await asyncio.sleep(self.chance.uniform(*LOAD_SECONDS))

        self.server.kill()
        await asyncio.gather(*(line.reader for line in lines.values()))
        for inbox in self.inboxes:
            inbox.bell.set()
        await asyncio.gather(*tasks)

    async def write(self, line, sender):
        """One message after the other; some twice at once, and now and then one is taken back."""
        while True:
            message = self.compose(sender)
            twice = self.chance.random() < 0.1
            answers = await asyncio.gather(*(line.call("message.send", **message.params()) for _ in range(1 + twice)))
            message.acknowledged = True
            self.found.add("acknowledged sends")
            if twice:
                self.found.add("sent twice at once")
                if [answer["status"] for answer in answers].count("duplicate") != 1:
                    self.found.wrong("duplicate message_id on a device", f"{message.message_id} was answered {answers}")
            if self.chance.random() < 0.05:
                await self.recall(line, message)

    def compose(self, sender):
        message_id = f"m-{next(self.numbers)}"
        message = Message(sender, self.chance.choice(self.receivers), message_id, self.chance.randrange(300))
        self.messages[message_id] = message
        self.fresh.append(message)
        return message

    async def recall(self, line, message):
        message.recall_asked = True
        answer = await line.call("message.recall", message_ids=[message.message_id])
        assert answer["recalled"] == 1, f"{message.message_id} was not recalled: {answer}"
        message.recalled = True
        self.recalled.append(message)
        self.found.add("recalls")


async def until_gone(job):
    with contextlib.suppress(*LOST):
        await job
