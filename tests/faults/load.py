"""Agents that write, read, acknowledge and recall through every fault, as clients do: they come back and ask again."""

import asyncio
import contextlib
import itertools
import time
from collections import Counter

import websockets
from inbox import BAD, GOOD, Findings, Inbox, Message
from place import CALL_SECONDS, HEAL_SECONDS
from wire import Key, Line, Refused, opened

SENDERS = 3
IN_FLIGHT = 3
RECEIVERS = 3
DEVICES = ("phone", "desk")
DIAL_SECONDS = 3
# The server ends a call after CALL_SECONDS; whoever hears nothing for longer than that was not answered.
ANSWER_SECONDS = CALL_SECONDS + 3
BELL_SECONDS = 15
LOST = (OSError, EOFError, websockets.WebSocketException)
# The server's words for "come back": it restarts.
RESTART = 1012
ALWAYS_BAD = (*BAD, "refused for good", "never rung for")

numbers = itertools.count(1)


class Again(Exception):
    """The call did not succeed, and may be made again."""


class Ear(Inbox):
    """An inbox whose owner may hear a bell twice, and goes through many connections."""

    def listen(self):
        last = 0

        def heard(method, params):
            nonlocal last
            if method not in ("event/message.received", "event/message.recalled"):
                return
            seq, message_id = params["seq"], params["message_id"]
            self.found.add("bells")
            if seq <= last and self.told.get(seq) == message_id:
                self.found.add("bells rung again")
            elif seq <= last:
                self.found.wrong("pushed out of order", f"{self.name} heard {seq} after {last}")
            last = max(last, seq)
            self.last_sender = params["from"]
            self.told[seq] = message_id
            self.bell.set()

        return heard

    @property
    def head(self):
        return max(self.told, default=0)


class Person:
    """One device of an agent, whose session is opened again whenever it ends."""

    def __init__(self, load, aid, device, listen=None):
        self.load, self.aid, self.device = load, aid, device
        self.listen = listen or (lambda: lambda method, params: None)
        self.line = None
        self.here = asyncio.Event()

    async def stay(self):
        while True:
            try:
                await self.visit()
            except Refused as refusal:
                self.load.refused("auth.connect", refusal)
            except LOST:
                self.load.ended["dials that failed"] += 1
            await asyncio.sleep(self.load.chance.uniform(0.02, 0.2))

    async def visit(self):
        """One session, until it ends."""
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(DIAL_SECONDS):
                wire = await stack.enter_async_context(opened(self.load.server))
                await wire.connect(self.load.tokens[self.aid], self.device)
            self.line = Line(wire, self.listen())
            self.here.set()
            try:
                await self.line.reader
                self.load.closes[int(wire.socket.close_code)] += 1
                self.load.closed_at.append(time.monotonic())
            finally:
                self.here.clear()
                self.line.reader.cancel()

    async def call(self, method, **params):
        """One try."""
        await self.here.wait()
        line, began = self.line, time.monotonic()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await line.call(method, **params)
        except Refused as refusal:
            self.load.refused(method, refusal)
        except TimeoutError:
            self.load.ended["calls without an answer"] += 1
            await line.socket.close()
        except LOST:
            restart = line.socket.close_code == RESTART
            self.load.ended["calls cut off by a restart" if restart else "calls cut off"] += 1
        finally:
            self.load.longest = max(self.load.longest, time.monotonic() - began)
        raise Again

    async def insist(self, method, **params):
        """As often as it takes; answers with the result and whether that was the first try."""
        for tries in itertools.count():
            try:
                return await self.call(method, **params), tries == 0
            except Again:
                await asyncio.sleep(self.load.chance.uniform(0.05, 0.2))


class Insistent:
    """Takes the place of a line where whoever reads has no time for failures."""

    def __init__(self, person):
        self.person = person

    async def call(self, method, **params):
        return (await self.person.insist(method, **params))[0]


class Load:
    """`async with Load(place, "title") as load`: there is load inside; afterwards everything is read and judged."""

    in_flight = IN_FLIGHT
    readers = RECEIVERS
    acknowledges = True

    def __init__(self, place, title):
        self.server, self.chance, self.title = place.server, place.chance, title
        self.found = Findings()
        self.ended, self.closes, self.refusals, self.sentences = Counter(), Counter(), Counter(), Counter()
        self.closed_at, self.longest = [], 0.0
        self.messages, self.recalled, self.tokens, self.did = {}, [], {}, []
        self.over = False
        number = next(numbers)
        self.senders = [f"writer{number}n{n}.{self.server.issuer}" for n in range(SENDERS)]
        self.receivers = [f"reader{number}n{n}.{self.server.issuer}" for n in range(self.readers)]
        self.inboxes = [Ear(aid, device, self.messages, self.found) for aid in self.receivers for device in DEVICES]
        self.people = {aid: Person(self, aid, "desk") for aid in self.senders}
        self.people |= {inbox.name: Person(self, inbox.aid, inbox.device, inbox.listen) for inbox in self.inboxes}

    async def __aenter__(self):
        for aid in self.senders + self.receivers:
            self.tokens[aid] = await sign_up(self.server, aid)
        self.staying = [asyncio.create_task(person.stay()) for person in self.people.values()]
        await self.everybody()
        # Whoever has asked once is told by sender what it acknowledged by sender.
        for inbox in self.inboxes:
            await inbox.examine(Insistent(self.people[inbox.name]), [], [])
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
            assert self.found.counts["rows seen"], "no message was kept: this proves nothing"
            assert not any(self.found.counts[what] for what in ALWAYS_BAD), "\n".join(self.found.words)

    async def everybody(self):
        async with asyncio.timeout(HEAL_SECONDS):
            for person in self.people.values():
                await person.here.wait()

    async def goes_on(self, count=20):
        """Returns when so many more messages were acknowledged: the load runs."""
        wanted = self.sent + count
        async with asyncio.timeout(HEAL_SECONDS):
            while self.sent < wanted:
                await asyncio.sleep(0.01)
                self.look()

    @property
    def sent(self):
        return self.found.counts["acknowledged sends"]

    def look(self):
        """A part of the load that broke breaks the test."""
        for task in self.writing + self.reading + self.staying:
            if task.done():
                task.result()

    def refused(self, method, refusal):
        self.ended["calls told to come again"] += refusal.retryable
        self.refusals[refusal.code] += 1
        self.sentences[str(refusal)] += 1
        if not refusal.retryable:
            self.found.wrong("refused for good", f"{method}: {refusal}")

    # ---- Load -------------------------------------------------------------------------------------------------------

    async def write(self, aid):
        """One message after the other; some twice at once, and now and then one is taken back."""
        person = self.people[aid]
        while not self.over:
            message = self.compose(aid, self.chance.choice(self.receivers))
            await (self.send_twice if self.chance.random() < 0.1 else self.send)(person, message)
            self.found.add("acknowledged sends")
            if self.chance.random() < 0.05:
                await self.recall(person, message)
            await asyncio.sleep(self.chance.uniform(0.01, 0.05))

    async def send(self, person, message):
        answer, first = await person.insist("message.send", **message.params())
        message.acknowledged = True
        self.found.add("retried sends", not first)
        return answer, first

    async def send_twice(self, person, message):
        sending = (self.send(person, message) for _ in range(2))
        (one, first), (other, second) = await asyncio.gather(*sending)
        self.found.add("sent twice at once")
        # One that had to ask again may have been taken the first time.
        if first and second and [one["status"], other["status"]].count("duplicate") != 1:
            words = f"{message.message_id} was answered {one} and {other}"
            self.found.wrong("duplicate message_id on a device", words)

    def compose(self, sender, to):
        message_id = f"m-{next(numbers)}"
        message = Message(sender, to, message_id, self.chance.randrange(300))
        self.messages[message_id] = message
        return message

    async def recall(self, person, message):
        message.recall_asked = True
        answer, first = await person.insist("message.recall", message_ids=[message.message_id])
        if answer["recalled"] != 1 and (first or answer["errors"][0]["error"] != "already_recalled"):
            self.found.wrong("recalled and still there", f"{message.message_id} was answered {answer}")
        message.recalled = True
        self.recalled.append(message)
        self.found.add("recalls")

    async def read(self, inbox):
        while True:
            try:
                await inbox.keep_up(self.people[inbox.name], self.chance)
            except Again:
                inbox.bell.set()
                await asyncio.sleep(self.chance.uniform(0.05, 0.2))

    # ---- Judgement --------------------------------------------------------------------------------------------------

    async def finish(self):
        """Everybody comes to an end, hears of everything, and then all of it is read again."""
        self.over = True
        began = time.monotonic()
        async with asyncio.timeout(HEAL_SECONDS):
            await asyncio.gather(*self.writing)
        await self.everybody()
        self.did.append(f"all was acknowledged {time.monotonic() - began:.1f} s later")
        async with asyncio.timeout(HEAL_SECONDS * 2):
            lines = await self.everybody_hears()
            for task in self.reading:
                task.cancel()
            for inbox in self.inboxes:
                await inbox.examine(lines[inbox.name], self.messages.values(), self.recalled)
                await inbox.read_again(lines[inbox.name])

    async def everybody_hears(self):
        lines = {inbox.name: Insistent(self.people[inbox.name]) for inbox in self.inboxes}
        await asyncio.gather(*(self.rung(inbox, lines[inbox.name]) for inbox in self.inboxes))
        return lines

    async def rung(self, inbox, line):
        """Whoever is connected hears of its newest message, without asking and without another message coming."""
        deadline = time.monotonic() + BELL_SECONDS
        while True:
            after = inbox.head
            page = await line.call("message.pull", after_seq=after, limit=1)
            if not page["messages"]:
                return
            if time.monotonic() > deadline:
                return self.found.wrong("never rung for", f"{inbox.name} heard of {after}, and there is more")
            await asyncio.sleep(0.2)

    def __str__(self):
        good = (*GOOD, "bells", "bells rung again")
        counts = [f"{self.found.counts[what]} {what}" for what in (*good, *ALWAYS_BAD)]
        counts += [f"{count} {what}" for what, count in sorted(self.ended.items())]
        counts.append(f"closes {dict(self.closes)}, longest call {self.longest:.1f} s")
        refusals = [f"  refused {count} times with {words}" for words, count in self.sentences.most_common()]
        return "\n".join([", ".join(counts), *refusals])


async def sign_up(server, aid):
    key = Key()
    async with asyncio.timeout(HEAL_SECONDS), opened(server) as wire:
        certificate = await wire.register(aid, key)
        return (await wire.login(aid, key, certificate))["access_token"]
