"""Unmodified public SDKs of one version write to each other, through everything that can happen in between."""

import json
import time

import pytest
from agents import numbers
from aund import eventually
from message_helpers import (
    acknowledged,
    arrives,
    couple,
    flagged_as_plain,
    messages,
    notified_in_order,
    pushed_once,
    reached,
    recalls,
    second_device,
    send_texts,
    text,
    texts,
    unchanged_on_the_wire,
)

# A public connect option of every version: come back within seconds instead of the default 1 to 64 and more.
SOON = {"initial_delay": 1.0, "max_delay": 2.0}
PAGE = 50
KINDS = {
    "text": {"text": 'grüß dich, 世界 🜚, "quoted" \\ / \u0001 \u2028', "été": "ключ"},
    "numbers": {"most": 2**53 - 1, "least": 1 - 2**53, "tiny": 1e-7, "half": -0.5, "zero": 0, "whole": 3.0},
    "nested": {"deep": [[[{"a": {"b": [{"c": None}, [], {}, ""]}}]]], "flags": [True, False, None], "": {"": ""}},
    "large": {"text": "0123456789abcdef" * 12_500},
}


@pytest.mark.shared
@pytest.mark.smoke
def test_two_agents_write_to_each_other(agent):
    alice, bob = couple(agent)

    for encrypt in (False, True):
        there = alice.send(to=bob.aid, payload=text(f"ping {encrypt}"), encrypt=encrypt)
        arrives(bob, [f"ping {encrypt}"])
        back = bob.send(to=alice.aid, payload=text(f"pong {encrypt}"), encrypt=encrypt)
        arrives(alice, [f"pong {encrypt}"])
        assert {there["status"], back["status"]} == {"delivered"}
        acknowledged(alice, bob, there["seq"])

    assert texts(bob) == ["ping False", "ping True"]
    assert texts(alice) == ["pong False", "pong True"]
    assert {message["from"] for message in messages(bob)} == {alice.aid}
    assert [message["seq"] for message in messages(bob)] == [1, 2]


@pytest.mark.shared
def test_every_kind_of_payload_arrives_as_it_was_sent(agent, version):
    alice, bob = couple(agent)
    plain, secret = [
        [{"type": "kind", "mark": f"{how}-{mark}", **kind} for mark, kind in KINDS.items()]
        for how in ("plain", "secret")
    ]

    alice.send_all(to=bob.aid, payloads=plain, encrypt=False)
    alice.send_all(to=bob.aid, payloads=secret, encrypt=True)

    assert [message["payload"] for message in messages(bob, 2 * len(KINDS))] == plain + secret
    for payload in plain:
        unchanged_on_the_wire(alice, bob, payload["mark"])
    pushed_once(bob)
    of_first_generation = numbers(version) < (0, 3)
    assert flagged_as_plain(bob) == (len(KINDS), len(KINDS) if of_first_generation else 0)
    assert alice.frames(holding="secret-") == bob.frames(holding="secret-") == {"sent": [], "heard": []}


@pytest.mark.shared
def test_a_backlog_of_several_pages_is_caught_up(agent, version):
    alice, bob = couple(agent)
    bob.end()
    expected = []
    for batch in range(6):
        expected += send_texts(alice, bob, f"plain {batch}", count=16, encrypt=False)
        expected += send_texts(alice, bob, f"secret {batch}", count=4, encrypt=True)

    bob = agent("bobby", home="bobby").ready()
    nudges = []
    if numbers(version) < (0, 3):
        # 0.2 takes one page when it connects and one more with every push, which it may hand out before its turn.
        for page in range(1, 3):
            messages(bob, PAGE * page)
            nudges += send_texts(alice, bob, f"nudge {page}", count=1, encrypt=False)

    messages(bob, len(expected + nudges), seconds=60)
    assert [words for words in texts(bob) if words not in nudges] == expected
    assert len(texts(bob)) == len(expected + nudges)
    acknowledged(alice, bob, len(expected + nudges))


@pytest.mark.shared
@pytest.mark.sdk(since="0.3")
def test_what_arrives_while_it_reads_is_read_too(agent):
    # 0.4.13 forgets every notification that comes while it pulls: all of it arrives only if it is notified again.
    alice, bob = couple(agent)
    expected = []
    for burst in range(4):
        expected += send_texts(alice, bob, f"burst {burst}", count=12, encrypt=True)
    messages(bob, len(expected), seconds=60)
    assert texts(bob) == expected
    acknowledged(alice, bob, len(expected))
    notified_in_order(bob)


@pytest.mark.shared
@pytest.mark.sdk(since="0.3")
def test_reminders_among_plain_messages_never_go_back(agent):
    # Each acknowledgement may be followed by a reminder, while plain messages go on arriving.
    alice, bob = couple(agent)
    expected = []
    for burst in range(4):
        expected += send_texts(alice, bob, f"secret {burst}", count=4, encrypt=True)
        expected += send_texts(alice, bob, f"plain {burst}", count=8, encrypt=False)
    # What counts is what the server sent: while they read what is missing, SDKs before 0.5.25 may hand out a plain message twice, or
    # lose it, because two of their tasks empty one queue ("P2P push processing failed" in their log).
    reached(bob, len(expected))
    acknowledged(alice, bob, len(expected))
    assert set(texts(bob)) <= set(expected)
    assert notified_in_order(bob)


@pytest.mark.shared
def test_a_recalled_message_is_gone(agent):
    alice, bob = couple(agent)
    seen = alice.send(to=bob.aid, payload=text("seen"), encrypt=False)["message_id"]
    arrives(bob, ["seen"])
    foreign = bob.call(method="message.recall", params={"message_ids": [seen]})
    assert (foreign["recalled"], len(foreign["errors"])) == (0, 1)
    recalls(alice, seen)
    assert seen in json.dumps(bob.message_events(kind="recalled", count=1, seconds=20))

    bob.end()
    unseen = alice.send(to=bob.aid, payload=text("unseen"), encrypt=False)["message_id"]
    hidden = alice.send(to=bob.aid, payload=text("hidden"), encrypt=True)["message_id"]
    recalls(alice, unseen)
    recalls(alice, hidden)
    alice.send(to=bob.aid, payload=text("last"), encrypt=False)

    bob = agent("bobby", home="bobby").ready()
    arrives(bob, ["last"])
    assert not {"unseen", "hidden"} & set(texts(bob))
    assert bob.frames(holding='"unseen"')["heard"] == [], "a recalled payload was handed out"


@pytest.mark.shared
@pytest.mark.sdk(since="0.4.13")
def test_who_is_online_is_known_within_a_second(agent):
    alice, bob = couple(agent)

    def online():
        return alice.call(method="message.query_online", params={"aids": [bob.aid, "nobody.aid.test"]})["online"]

    took = []
    # A crowded machine may be slow once, but not each time.
    while not took or took[-1] >= 1 and len(took) < 3:
        if took:
            bob.end()
            bob = agent("bobby", home="bobby").ready()
        assert online() == {bob.aid: True, "nobody.aid.test": False}
        bob.close()
        closed = time.monotonic()
        offline = {bob.aid: False, "nobody.aid.test": False}
        eventually("bob offline", lambda: online() == offline, every=0.02)
        took.append(time.monotonic() - closed)
    assert min(took) < 1, took


@pytest.mark.shared
@pytest.mark.smoke
def test_a_message_sent_twice_arrives_once(agent):
    alice, bob = couple(agent)

    first, again = [
        alice.send(to=bob.aid, payload=text("once"), encrypt=False, message_id="m-the-same") for _ in range(2)
    ]
    after = alice.send(to=bob.aid, payload=text("after"), encrypt=False)

    assert (first["message_id"], again["message_id"]) == ("m-the-same", "m-the-same")
    assert (first["status"], again["status"]) == ("delivered", "duplicate")
    assert (again["seq"], after["seq"]) == (first["seq"], first["seq"] + 1)
    assert [message["seq"] for message in messages(bob, 2)] == [1, 2]
    assert texts(bob) == ["once", "after"]
    pushed_once(bob)


@pytest.mark.shared
def test_two_devices_of_one_agent_see_the_same_conversation(agent):
    phone, bob = couple(agent)
    laptop = second_device(agent, phone)

    send_texts(bob, phone, "for both, plain", count=1, encrypt=False)
    send_texts(bob, phone, "for both, secret", count=1, encrypt=True)
    for device in (phone, laptop):
        arrives(device, ["for both, plain 0", "for both, secret 0"])

    send_texts(phone, bob, "from the phone", count=1, encrypt=True)
    arrives(bob, ["from the phone 0"])
    arrives(laptop, ["from the phone 0"])
    assert messages(laptop)[-1]["from"] == phone.aid

    send_texts(bob, phone, "and on", count=1, encrypt=True)
    for device in (phone, laptop):
        arrives(device, ["and on 0"])
    assert "from the phone 0" not in texts(phone), "a device got its own message"


@pytest.mark.smoke
def test_a_crash_of_the_server_loses_no_message(server, agent, version):
    alice, bob = couple(agent, retry=SOON)
    # 0.2 counts an encrypted message as read before it has opened it, and drops it where the server dies in between.
    bob.start_talk(to=alice.aid, count=12, encrypt=numbers(version) >= (0, 3))
    bob.talked(count=2, seconds=60)
    alice.start_talk(to=bob.aid, count=12, encrypt=False)
    alice.talked(count=2, seconds=60)

    server.kill()
    shown = {agent.aid: set(texts(agent)) for agent in (alice, bob)}
    server.start()

    for sender, receiver in ((alice, bob), (bob, alice)):
        sent = sender.talked(count=12, seconds=100)
        send_texts(sender, receiver, "the last", count=1, encrypt=False)
        arrives(receiver, [*sent, "the last 0"], seconds=60)
        # Only what was shown and not acknowledged when the server was killed may be shown again, under the seq it has.
        arrived = texts(receiver)
        assert {one for one in arrived if arrived.count(one) > 1} <= shown[receiver.aid], "a message arrived twice"
        stored = {(message["payload"]["text"], message["seq"]) for message in messages(receiver) if "text" in message["payload"]}
        assert len(stored) == len(set(arrived)), "a message is stored twice"
        pushed_once(receiver)


@pytest.mark.shared
@pytest.mark.sdk(since="0.5.25")
def test_thoughts_are_kept_for_the_other_side(agent):
    alice, bob = couple(agent)
    context = {"type": "run", "id": "run-1"}
    for number in range(3):
        payload = {"type": "thought", "text": f"thought {number}"}
        alice.call(method="message.thought.put", params={"to": bob.aid, "context": context, "payload": payload})

    for _ in range(2):
        found = bob.call(method="message.thought.get", params={"sender_aid": alice.aid, "context": context})
        assert [thought["payload"]["text"] for thought in found["thoughts"]] == [f"thought {n}" for n in range(3)]
    other = {"sender_aid": alice.aid, "context": {"type": "run", "id": "run-2"}}
    assert bob.call(method="message.thought.get", params=other)["thoughts"] == []
