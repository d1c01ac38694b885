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
from connection import Key, Session, opened
from inbox import BAD, Inbox, Message, Results

STORE = os.environ.get("AUND_TEST_STORE", "sqlite")
ROUNDS = int(os.environ.get("AUND_CRASH_ROUNDS", {"sqlite": "100"}.get(STORE, "40")))
SEED = int(os.environ.get("AUND_CRASH_SEED", secrets.randbelow(1_000_000)))
SENDERS = 3
IN_FLIGHT = 4
RECEIVERS = 3
DEVICES = ("phone", "laptop")
LOAD_SECONDS = (0.02, 0.4)
# One sender here writes more than the default limits allow.
LIMITS = {"calls_per_second": 1_000_000, "connects_per_second": 100_000}
LOST = (OSError, EOFError, websockets.WebSocketException)


def test_what_was_acknowledged_is_there_once_after_kill_9():
    print(f"\nseed {SEED}, {ROUNDS} rounds of messages, store {STORE}", flush=True)
    with tempfile.TemporaryDirectory(prefix="aund-") as folder:
        server = Aund(folder, limits=LIMITS)
        try:
            results = asyncio.run(Rounds(server, random.Random(SEED)).run())
        finally:
            server.stop()

    assert results.counts["rows seen"], "no message was kept: the rounds are too short to prove anything"
    assert not any(results.counts[what] for what in BAD), "\n".join(results.words)


class Rounds:
    """Everything that the test knows, and the server that it compares with it."""

    def __init__(self, server, chance):
        self.server = server
        self.chance = chance
        self.results = Results()
        self.messages = {}
        self.fresh = []
        self.recalled = []
        self.numbers = itertools.count(1)
        self.senders = [f"sender{number}.{server.issuer}" for number in range(SENDERS)]
        self.receivers = [f"reader{number}.{server.issuer}" for number in range(RECEIVERS)]
        self.inboxes = [Inbox(aid, device, self.messages, self.results) for aid in self.receivers for device in DEVICES]
        self.tokens = {}

    async def run(self):
        self.server.start()
        for aid in self.senders + self.receivers:
            await self.sign_up(aid)
        for number in range(1, ROUNDS + 1):
            async with self.everybody() as sessions:
                await self.settle(sessions)
                await self.load(sessions)
            self.server.start()
            if number % 50 == 0 or number == ROUNDS:
                print(f"round {number}: {self.results}", flush=True)
        async with self.everybody() as sessions:
            await self.settle(sessions)
            for inbox in self.inboxes:
                await inbox.read_again(sessions[inbox.name])
        print(f"read again: {self.results}", flush=True)
        return self.results

    async def sign_up(self, aid):
        key = Key()
        async with opened(self.server) as connection:
            certificate = await connection.register(aid, key)
            self.tokens[aid] = (await connection.login(aid, key, certificate))["access_token"]

    @contextlib.asynccontextmanager
    async def everybody(self):
        """A session for every sender and for every device of every receiver."""
        async with contextlib.AsyncExitStack() as stack:
            sessions = {aid: await self.session(stack, aid, "laptop") for aid in self.senders}
            for inbox in self.inboxes:
                sessions[inbox.name] = await self.session(stack, inbox.aid, inbox.device)
            yield sessions

    async def session(self, stack, aid, device):
        connection = await stack.enter_async_context(opened(self.server))
        await connection.connect(self.tokens[aid], device)
        return Session(connection)

    async def settle(self, sessions):
        """Sends again what had no answer, then compares every inbox with what was acknowledged."""
        fresh, self.fresh = self.fresh, []
        recalled, self.recalled = self.recalled, []
        for message in fresh:
            if not message.acknowledged:
                await sessions[message.sender].call("message.send", **message.params())
                self.results.add("retried sends")
        for inbox in self.inboxes:
            await inbox.examine(sessions[inbox.name], fresh, recalled)

    async def load(self, sessions):
        """Everybody works until the server is gone."""
        for inbox in self.inboxes:
            sessions[inbox.name].heard = inbox.listen()
        jobs = [self.write(sessions[aid], aid) for aid in self.senders for _ in range(IN_FLIGHT)]
        jobs += [inbox.keep_up(sessions[inbox.name], self.chance) for inbox in self.inboxes]
        tasks = [asyncio.create_task(until_gone(job)) for job in jobs]
        await asyncio.sleep(self.chance.uniform(*LOAD_SECONDS))

        self.server.kill()
        await asyncio.gather(*(session.reader for session in sessions.values()))
        for inbox in self.inboxes:
            inbox.has_news.set()
        await asyncio.gather(*tasks)

    async def write(self, session, sender):
        """One message after the other; some twice at once, and now and then one is recalled."""
        while True:
            message = self.compose(sender)
            twice = self.chance.random() < 0.1
            answers = await asyncio.gather(*(session.call("message.send", **message.params()) for _ in range(1 + twice)))
            message.acknowledged = True
            self.results.add("acknowledged sends")
            if twice:
                self.results.add("sent twice at once")
                if [answer["status"] for answer in answers].count("duplicate") != 1:
                    self.results.wrong("duplicate message_id on a device", f"{message.message_id} was answered {answers}")
            if self.chance.random() < 0.05:
                await self.recall(session, message)

    def compose(self, sender):
        message_id = f"m-{next(self.numbers)}"
        message = Message(sender, self.chance.choice(self.receivers), message_id, self.chance.randrange(300))
        self.messages[message_id] = message
        self.fresh.append(message)
        return message

    async def recall(self, session, message):
        message.recall_asked = True
        answer = await session.call("message.recall", message_ids=[message.message_id])
        assert answer["recalled"] == 1, f"{message.message_id} was not recalled: {answer}"
        message.recalled = True
        self.recalled.append(message)
        self.results.add("recalls")


async def until_gone(job):
    with contextlib.suppress(*LOST):
        await job
