"""Steps of tests about messages: who writes, what arrives, and what was on the wire."""

import json
import shutil

from agents import numbers
from aund import eventually

NOTIFICATION = "event/peer.v2.message_received"


def couple(agent, retry=None):
    """Alice and Bob, both with a session."""
    pair = agent("alice", home="alice"), agent("bobby", home="bobby")
    for one in pair:
        one.register()
        one.ready(retry=retry)
    return pair


def second_device(agent, first):
    """The same identity on another machine: its keys are copied, its device id is not."""
    copy = first.home.parent / "second"
    identity = f"AIDs/{first.aid}"
    for part in ("private", "public"):
        shutil.copytree(first.home / identity / part, copy / identity / part)
    return agent("alice", home="second").ready()


def text(words):
    return {"type": "text", "text": words}


def send_texts(sender, receiver, words, count, encrypt):
    sent = [f"{words} {number}" for number in range(count)]
    sender.send_all(to=receiver.aid, payloads=[text(one) for one in sent], encrypt=encrypt)
    return sent


def messages(agent, count=0, seconds=30):
    """What the application was handed, once that is this much."""
    if numbers(agent.version) >= (0, 3):
        return agent.message_events(kind="received", count=count, seconds=seconds)

    # 0.2 opens several messages at once: it hands them out as they get ready, and some of them twice.
    def distinct():
        found = {message["seq"]: message for message in agent.message_events(kind="received", count=0, seconds=seconds)}
        return ([one for _, one in sorted(found.items())],) if len(found) >= count else None

    return eventually(f"{count} messages at {agent.aid}", distinct, seconds)[0]


def pushed_once(agent):
    """The server has pushed every seq once and in order, whatever the SDK makes of it."""
    heard = agent.frames(holding='"event/message.received"')["heard"]
    pushed = [json.loads(frame)["params"]["seq"] for frame in heard]
    assert pushed == sorted(set(pushed)), f"pushed to {agent.aid} out of order: {pushed}"


def notified_in_order(agent):
    """No notification names a smaller seq than any event of the inbox before it, however often it was notified; gives the seqs."""
    newest, seqs = 0, []
    for frame in map(json.loads, agent.frames(holding='"event/')["heard"]):
        if frame["method"] not in (NOTIFICATION, "event/message.received"):
            continue
        seq = frame["params"]["seq"]
        if frame["method"] == NOTIFICATION:
            assert seq >= newest, f"a notification to {agent.aid} of {seq} went back behind {newest}"
            seqs.append(seq)
        newest = max(newest, seq)
    return seqs


def reached(agent, count):
    """The server has pushed every message so far to this client, or answered it to a pull."""

    def heard():
        frames = map(json.loads, agent.frames(holding='"seq"')["heard"])
        return {seq for frame in frames for seq in carried(frame)} >= set(range(1, count + 1))

    eventually(f"{count} messages on the wire to {agent.aid}", heard, 60)


def carried(frame):
    """The seqs of the messages that a frame has."""
    if frame.get("method") == "event/message.received":
        return [frame["params"]["seq"]]
    result = frame.get("result")
    pulled = result.get("messages") if isinstance(result, dict) else None
    return [message["seq"] for message in pulled or ()]


def flagged_as_plain(agent):
    """Every plain payload was pushed with `"encrypted": false`, and nothing that may be an envelope; gives how many of each."""
    heard = [json.loads(frame)["params"] for frame in agent.frames(holding='"event/message.received"')["heard"]]
    sealed = [event for event in heard if str(event["payload"].get("type", "")).startswith("e2ee.")]
    plain = [event for event in heard if event not in sealed]
    assert all(event["encrypted"] is False for event in plain), plain
    assert all(event.get("encrypted", True) is True for event in sealed), sealed
    return len(plain), len(sealed)


def texts(agent):
    """What was written, in the order of arrival; a notice of recall, which old clients treat as a message, has no text."""
    return [message["payload"]["text"] for message in messages(agent) if "text" in message["payload"]]


def arrives(agent, expected, seconds=30):
    eventually(f"{expected} at {agent.aid}", lambda: set(expected) <= set(texts(agent)), seconds)


def acknowledged(sender, receiver, seq):
    """The sender is told that the receiver has acknowledged this far."""

    def told():
        acks = sender.message_events(kind="ack", count=0, seconds=0)
        return [ack for ack in acks if ack["to"] == receiver.aid and ack["ack_seq"] >= seq]

    eventually(f"the acknowledgement of {seq}", told)


def recalls(sender, message_id):
    done = sender.call(method="message.recall", params={"message_ids": [message_id]})
    assert (done["accepted"], done["recalled"], done["errors"]) == (1, 1, None)


def unchanged_on_the_wire(sender, receiver, mark):
    """Every copy of the payload that the receiver was handed has the bytes that the sender wrote."""
    sent, heard = [
        {piece for frame in agent.frames(holding=mark)[way] for piece in payloads(frame) if mark in piece}
        for agent, way in ((sender, "sent"), (receiver, "heard"))
    ]
    assert len(sent) == 1
    assert heard == sent


def payloads(frame):
    """The text of every payload member of a frame."""
    for piece in frame.split('"payload":')[1:]:
        piece = piece.lstrip()
        _, end = json.JSONDecoder().raw_decode(piece)
        yield piece[:end]
