"""What the test knows of messages and inboxes, to compare a restarted server with it."""

import asyncio
from collections import Counter
from dataclasses import dataclass

PAGE = 200
GOOD = ("acknowledged sends", "retried sends", "sent twice at once", "acks", "recalls", "rows seen")
BAD = (
    "missing",
    "duplicate (aid, device, seq)",
    "duplicate message_id on a device",
    "holes",
    "cursors that went back",
    "cursors nobody asked for",
    "pushed and gone",
    "pushed out of order",
    "changed",
    "recalled and still there",
    "unknown messages",
)


class Results:
    """Counts of what happened and of what never may; the first few of the latter in words."""

    def __init__(self):
        self.counts = Counter()
        self.words = []

    def add(self, what, count=1):
        self.counts[what] += count

    def wrong(self, what, words):
        self.counts[what] += 1
        if len(self.words) < 20:
            self.words.append(f"{what}: {words}")

    def __str__(self):
        return ", ".join(f"{self.counts[what]} {what}" for what in GOOD + BAD)


@dataclass
class Message:
    """One message that somebody sent, and what the server said about it."""

    sender: str
    to: str
    message_id: str
    pad: int
    acknowledged: bool = False
    recall_asked: bool = False
    recalled: bool = False

    @property
    def payload(self):
        return {"type": "text", "text": f"words of {self.message_id}", "pad": "." * self.pad}

    def params(self):
        return {"to": self.to, "message_id": self.message_id, "payload": self.payload}


class Inbox:
    """One device of a receiver: the rows it was found to have, and what it was told since."""

    def __init__(self, aid, device, messages, results):
        self.aid = aid
        self.device = device
        self.messages = messages
        self.results = results
        self.rows = []
        self.seq_of = {}
        self.notices = set()
        self.told = {}
        self.has_news = asyncio.Event()
        self.last_sender = None
        # The cursor of the device, or of one sender on it: what was asked for, and what was acknowledged.
        self.asked = Counter()
        self.acked = Counter()

    @property
    def name(self):
        return f"{self.aid}/{self.device}"

    def listen(self):
        """A listener for one connection, on which the seqs of the pushed rows only grow."""
        last = 0
        self.told = {}

        def heard(method, params):
            nonlocal last
            if method != "event/message.received":
                return
            seq = params["seq"]
            if seq <= last:
                self.results.wrong("pushed out of order", f"{self.name} heard {seq} after {last}")
            last, self.last_sender = seq, params["from"]
            self.told[seq] = params["message_id"]
            self.has_news.set()

        return heard

    async def keep_up(self, session, chance):
        """Acknowledges what was pushed, and looks back now and then."""
        while True:
            await self.has_news.wait()
            self.has_news.clear()
            head = max(self.told, default=0)
            await self.acknowledge(session, head)
            if chance.random() < 0.2:
                await self.look_back(session, max(0, head - 20))

    async def acknowledge(self, session, seq):
        """A laptop acknowledges sender by sender, as the newest clients do; a phone acknowledges the whole inbox."""
        sender = self.last_sender if self.device == "laptop" else None
        self.asked[sender] = max(self.asked[sender], seq)
        if sender:
            answer = await session.call("message.v2.ack", cursor_scope="peer", sender_aid=sender, up_to_seq=seq)
        else:
            answer = await session.call("message.ack", seq=seq)
        self.acked[sender] = max(self.acked[sender], answer["ack_seq"])
        self.results.add("acks")

    async def look_back(self, session, after):
        """Whatever is read under load is without holes, and has to be there after the crash, too."""
        page = await session.call("message.pull", after_seq=after, limit=PAGE)
        seqs = [row["seq"] for row in page["messages"]]
        if seqs != list(range(after + 1, after + 1 + len(seqs))):
            self.results.wrong("holes", f"{self.name} read {seqs} after {after}")
        for row in page["messages"]:
            self.told[row["seq"]] = row["message_id"]
            message = self.messages.get(row["message_id"])
            # What is being recalled may have been read before or after.
            if message and not message.recall_asked:
                self.check_content(row)

    async def examine(self, session, acknowledged, recalled):
        """Reads what is new, and finds in it whatever was acknowledged or handed out before the crash."""
        told, self.told = self.told, {}
        page = await self.read(session, len(self.rows), self.take)
        self.check_cursor(None, page["server_ack_seq"])
        for peer in (await session.call("message.peers", filter="all"))["peers"]:
            self.check_cursor(peer["sender_aid"], peer["server_ack_seq"])
        for seq, message_id in told.items():
            if self.seq_of.get(message_id) != seq:
                self.results.wrong("pushed and gone", f"{self.name} was handed {message_id} as {seq}")
        for message in acknowledged:
            if message.to == self.aid and message.message_id not in self.seq_of:
                self.results.wrong("missing", f"{message.message_id} at {self.name}")
        for message in recalled:
            if message.to == self.aid and message.message_id in self.seq_of:
                seq = self.seq_of[message.message_id]
                page = await session.call("message.pull", after_seq=seq - 1, limit=1)
                self.check_content(page["messages"][0])

    async def read_again(self, session):
        """Reads everything from the beginning: it is what it was found to be, round by round."""

        def compare(row):
            self.results.add("rows seen")
            if self.rows[row["seq"] - 1] != row["message_id"]:
                self.results.wrong("changed", f"{self.name} has another message as {row['seq']}")
            self.check_content(row)

        before = self.results.counts["rows seen"]
        await self.read(session, 0, compare)
        if self.results.counts["rows seen"] - before != len(self.rows):
            self.results.wrong("missing", f"{self.name} had {len(self.rows)} rows before")

    async def read(self, session, after, each):
        while True:
            page = await session.call("message.pull", after_seq=after, limit=PAGE)
            for row in page["messages"]:
                each(row)
                after = row["seq"]
            if not page["has_more"]:
                return page

    def take(self, row):
        seq, message_id, expected = row["seq"], row["message_id"], len(self.rows) + 1
        if seq < expected:
            return self.results.wrong("duplicate (aid, device, seq)", f"{self.name} has {seq} twice")
        if seq > expected:
            self.results.wrong("holes", f"{self.name} goes from {expected - 1} to {seq}")
            self.rows += [None] * (seq - expected)
        if message_id in self.seq_of:
            self.results.wrong("duplicate message_id on a device", f"{message_id} is {self.seq_of[message_id]} and {seq}")
        self.rows.append(message_id)
        self.seq_of[message_id] = seq
        self.check_content(row)
        self.take_notice(row)

    def take_notice(self, row):
        """A recall adds one row that tells of it, once for every recalled message."""
        if row["message_id"] in self.messages:
            return
        for message_id in row["payload"].get("message_ids", ()):
            if message_id in self.notices:
                self.results.wrong("duplicate message_id on a device", f"{self.name} was told twice that {message_id} is recalled")
            self.notices.add(message_id)

    def check_content(self, row):
        message = self.messages.get(row["message_id"])
        tombstone = row.get("type") == "message.recalled"
        if message is None:
            asked = [self.messages.get(message_id) for message_id in row["payload"].get("message_ids", ())]
            if not tombstone or not asked or not all(one and one.recall_asked for one in asked):
                self.results.wrong("unknown messages", f"nobody sent {row}")
        elif message.to != self.aid or row["from"] != message.sender:
            self.results.wrong("unknown messages", f"{self.name} has {row}")
        elif tombstone and not message.recall_asked:
            self.results.wrong("changed", f"nobody recalled {message.message_id}")
        elif not tombstone and message.recalled:
            self.results.wrong("recalled and still there", f"{message.message_id} at {self.name}")
        elif not tombstone and row["payload"] != message.payload:
            self.results.wrong("changed", f"{message.message_id} at {self.name}")

    def check_cursor(self, sender, seq):
        asked, acked = self.asked[sender], self.acked[sender]
        if seq < acked:
            self.results.wrong("cursors that went back", f"{self.name} of {sender} acknowledged {acked} and has {seq}")
        if seq > asked:
            self.results.wrong("cursors nobody asked for", f"{self.name} of {sender} asked for {asked} and has {seq}")
        self.acked[sender] = max(acked, seq)
