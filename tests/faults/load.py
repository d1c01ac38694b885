"""Agents that write, read, acknowledge and recall through every fault, as clients do: they come back and ask again."""

import asyncio
import contextlib
import itertools
import time
from collections import Counter

import websockets
from cluster import CALL_SECONDS, HEAL_SECONDS
from connection import Key, Refused, Session, opened
from inbox import BAD, GOOD, Inbox, Message, Results

SENDERS = 3
IN_FLIGHT = 3
RECEIVERS = 3
DEVICES = ("phone", "laptop")
DIAL_SECONDS = 3
# The server ends a call after CALL_SECONDS; whoever hears nothing for longer than that was not answered.
ANSWER_SECONDS = CALL_SECONDS + 3
EVENT_SECONDS = 15
LOST = (OSError, EOFError, websockets.WebSocketException)
# The close code for "come back, the server restarts".
RESTART = 1012
ALWAYS_BAD = (*BAD, "refused for good", "never told of")

numbers = itertools.count(1)


class Again(Exception):
    """The call did not succeed, and may be made again."""


class ReconnectingInbox(Inbox):
    """An inbox whose owner may get an event twice, and goes through many connections."""

    def listen(self):
        last = 0

        def heard(method, params):
            nonlocal last
            if method not in ("event/message.received", "event/message.recalled"):
                return
            seq, message_id = params["seq"], params["message_id"]
            self.results.add("events")
            if seq <= last and self.told.get(seq) == message_id:
                self.results.add("events that came again")
            elif seq <= last:
                self.results.wrong("pushed out of order", f"{self.name} heard {seq} after {last}")
            last = max(last, seq)
            self.last_sender = params["from"]
            self.told[seq] = message_id
            self.has_news.set()

        return heard

    @property
    def head(self):
        return max(self.told, default=0)


class Device:
    """One device of an agent, whose session is opened again whenever it ends."""

    def __init__(self, load, aid, device_id, listen=None):
        self.load, self.aid, self.device_id = load, aid, device_id
        self.listen = listen or (lambda: lambda method, params: None)
        self.session = None
        self.connected = asyncio.Event()

    async def stay_connected(self):
        while True:
            try:
                await self.one_session()
            except Refused as refusal:
                self.load.refused("auth.connect", refusal)
            except LOST:
                self.load.ended["dials that failed"] += 1
            await asyncio.sleep(self.load.chance.uniform(0.02, 0.2))

    async def one_session(self):
        """One session, until it ends."""
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(DIAL_SECONDS):
                connection = await stack.enter_async_context(opened(self.load.server))
                await connection.connect(self.load.tokens[self.aid], self.device_id)
            self.session = Session(connection, self.listen())
            self.connected.set()
            try:
                await self.session.reader
                self.load.closes[int(connection.socket.close_code)] += 1
                self.load.closed_at.append(time.monotonic())
            finally:
                self.connected.clear()
                self.session.reader.cancel()

    async def call(self, method, **params):
        """One try."""
        await self.connected.wait()
        session, began = self.session, time.monotonic()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await session.call(method, **params)
        except Refused as refusal:
            self.load.refused(method, refusal)
        except TimeoutError:
            self.load.ended["calls without an answer"] += 1
            await session.socket.close()
        except LOST:
            restart = session.socket.close_code == RESTART
            self.load.ended["calls cut off by a restart" if restart else "calls cut off"] += 1
        finally:
            self.load.longest = max(self.load.longest, time.monotonic() - began)
        raise Again

    async def call_until_answered(self, method, **params):
        """As often as it takes; answers with the result and whether that was the first try."""
        for tries in itertools.count():
            try:
                return await self.call(method, **params), tries == 0
            except Again:
                await asyncio.sleep(self.load.chance.uniform(0.05, 0.2))


class RetryingSession:
    """Stands in for a session: every call is made again until it succeeds."""

    def __init__(self, device):
        self.device = device

    async def call(self, method, **params):
        return (await self.device.call_until_answered(method, **params))[0]


class Load:
    """`async with Load(cluster, "title") as load`: there is load inside; afterwards everything is read and checked."""

    in_flight = IN_FLIGHT
    readers = RECEIVERS
    acknowledges = True

    def __init__(self, cluster, title):
        self.server, self.chance, self.title = cluster.server, cluster.chance, title
        self.results = Results()
        self.ended, self.closes, self.refusals, self.sentences = Counter(), Counter(), Counter(), Counter()
        self.closed_at, self.longest = [], 0.0
        self.messages, self.recalled, self.tokens, self.did = {}, [], {}, []
        self.over = False
        number = next(numbers)
        self.senders = [f"writer{number}n{n}.{self.server.issuer}" for n in range(SENDERS)]
        self.receivers = [f"reader{number}n{n}.{self.server.issuer}" for n in range(self.readers)]
        owners = [(aid, device) for aid in self.receivers for device in DEVICES]
        self.inboxes = [ReconnectingInbox(aid, device, self.messages, self.results) for aid, device in owners]
        self.devices = {aid: Device(self, aid, "laptop") for aid in self.senders}
        self.devices |= {inbox.name: Device(self, inbox.aid, inbox.device, inbox.listen) for inbox in self.inboxes}

    async def __aenter__(self):
        for aid in self.senders + self.receivers:
            self.tokens[aid] = await sign_up(self.server, aid)
        self.staying = [asyncio.create_task(device.stay_connected()) for device in self.devices.values()]
        await self.everybody()
        # Whoever has asked once is told by sender what it acknowledged by sender.
        for inbox in self.inboxes:
            await inbox.examine(RetryingSession(self.devices[inbox.name]), [], [])
        self.writing = [asyncio.create_task(self.write(aid)) for aid in self.senders for _ in range(self.in_flight)]
        self.reading = [asyncio.create_task(self.read(inbox)) for inbox in self.inboxes if self.acknowledges]
        return self

    async def __aexit__(self, kind, *problem):
        try:
            if kind is None:
                await self.finish()
        finally:
            tasks = self.writing + self.reading + self.staying
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            print(f"{self.title}: {'; '.join(self.did)}\n  {self}", flush=True)
        if kind is None:
            assert self.results.counts["rows seen"], "no message was kept: this proves nothing"
            assert not any(self.results.counts[what] for what in ALWAYS_BAD), "\n".join(self.results.words)

    async def everybody(self):
        async with asyncio.timeout(HEAL_SECONDS):
            for device in self.devices.values():
                await device.connected.wait()

    async def goes_on(self, count=20):
        """Returns when so many more messages were acknowledged: the load runs."""
        wanted = self.sent + count
        async with asyncio.timeout(HEAL_SECONDS):
            while self.sent < wanted:
                await asyncio.sleep(0.01)
                self.look()

    @property
    def sent(self):
        return self.results.counts["acknowledged sends"]

    def look(self):
        """A part of the load that broke breaks the test."""
        for task in self.writing + self.reading + self.staying:
            if task.done():
                task.result()

    def refused(self, method, refusal):
        self.ended["calls told to retry"] += refusal.retryable
        self.refusals[refusal.code] += 1
        self.sentences[str(refusal)] += 1
        if not refusal.retryable:
            self.results.wrong("refused for good", f"{method}: {refusal}")

    # ---- Load -------------------------------------------------------------------------------------------------------

    async def write(self, aid):
        """One message after the other; some twice at once, and now and then one is recalled."""
        device = self.devices[aid]
        while not self.over:
            message = self.compose(aid, self.chance.choice(self.receivers))
            await (self.send_twice if self.chance.random() < 0.1 else self.send)(device, message)
            self.results.add("acknowledged sends")
            if self.chance.random() < 0.05:
                await self.recall(device, message)
            await asyncio.sleep(self.chance.uniform(0.01, 0.05))

    async def send(self, device, message):
        answer, first = await device.call_until_answered("message.send", **message.params())
        message.acknowledged = True
        self.results.add("retried sends", not first)
        return answer, first

    async def send_twice(self, device, message):
        sending = (self.send(device, message) for _ in range(2))
        (one, first), (other, second) = await asyncio.gather(*sending)
        self.results.add("sent twice at once")
        # One that had to ask again may have been accepted the first time.
        if first and second and [one["status"], other["status"]].count("duplicate") != 1:
            words = f"{message.message_id} was answered {one} and {other}"
            self.results.wrong("duplicate message_id on a device", words)

    def compose(self, sender, to):
        message_id = f"m-{next(numbers)}"
        message = Message(sender, to, message_id, self.chance.randrange(300))
        self.messages[message_id] = message
        return message

    async def recall(self, device, message):
        message.recall_asked = True
        answer, first = await device.call_until_answered("message.recall", message_ids=[message.message_id])
        if answer["recalled"] != 1 and (first or answer["errors"][0]["error"] != "already_recalled"):
            self.results.wrong("recalled and still there", f"{message.message_id} was answered {answer}")
        message.recalled = True
        self.recalled.append(message)
        self.results.add("recalls")

    async def read(self, inbox):
        while True:
            try:
                await inbox.keep_up(self.devices[inbox.name], self.chance)
            except Again:
                inbox.has_news.set()
                await asyncio.sleep(self.chance.uniform(0.05, 0.2))

    # ---- Checking ---------------------------------------------------------------------------------------------------

    async def finish(self):
        """Everybody comes to an end, hears of everything, and then all of it is read again."""
        self.over = True
        began = time.monotonic()
        async with asyncio.timeout(HEAL_SECONDS):
            await asyncio.gather(*self.writing)
        await self.everybody()
        self.did.append(f"all was acknowledged {time.monotonic() - began:.1f} s later")
        async with asyncio.timeout(HEAL_SECONDS * 2):
            sessions = await self.everybody_is_told()
        for task in self.reading:
            task.cancel()
        for inbox in self.inboxes:
            # How long it takes depends on how much there is to read, and that on how long the faults took.
            async with asyncio.timeout(HEAL_SECONDS * 2):
                await inbox.examine(sessions[inbox.name], self.messages.values(), self.recalled)
            async with asyncio.timeout(HEAL_SECONDS * 2):
                await inbox.read_again(sessions[inbox.name])

    async def everybody_is_told(self):
        sessions = {inbox.name: RetryingSession(self.devices[inbox.name]) for inbox in self.inboxes}
        await asyncio.gather(*(self.is_told(inbox, sessions[inbox.name]) for inbox in self.inboxes))
        return sessions

    async def is_told(self, inbox, session):
        """Whoever is connected is told of its newest message, without asking and without another message coming."""
        deadline = time.monotonic() + EVENT_SECONDS
        while True:
            after = inbox.head
            page = await session.call("message.pull", after_seq=after, limit=1)
            if not page["messages"]:
                return
            if time.monotonic() > deadline:
                return self.results.wrong("never told of", f"{inbox.name} heard of {after}, and there is more")
            await asyncio.sleep(0.2)

    def __str__(self):
        good = (*GOOD, "events", "events that came again")
        counts = [f"{self.results.counts[what]} {what}" for what in (*good, *ALWAYS_BAD)]
        counts += [f"{count} {what}" for what, count in sorted(self.ended.items())]
        counts.append(f"closes {dict(self.closes)}, longest call {self.longest:.1f} s")
        refusals = [f"  refused {count} times with {words}" for words, count in self.sentences.most_common()]
        return "\n".join([", ".join(counts), *refusals])


async def sign_up(server, aid):
    key = Key()
    async with asyncio.timeout(HEAL_SECONDS), opened(server) as connection:
        certificate = await connection.register(aid, key)
        return (await connection.login(aid, key, certificate))["access_token"]
