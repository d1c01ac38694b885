"""Unmodified public SDKs of two domains, each with a server, a root and an operator of its own."""

import pytest
from agents import Agent
from aund import Aund, eventually, split
from message_helpers import acknowledged, arrives, messages, pushed_once, recalls, send_texts, text, texts

SOON = {"initial_delay": 1.0, "max_delay": 2.0}
# What differs between shapes of the server does not differ between versions of the client.
VERSIONS = ("0.5.25",) if split() else ("0.4.13", "0.5.4", "0.5.25")

pytestmark = [pytest.mark.only(*VERSIONS), pytest.mark.timeout(600)]


@pytest.fixture
def domains(folder, one_at_a_time):
    """Two domains that know where the other is and trust its root."""
    here, there = (Aund(folder / name, issuer=f"{name}.test") for name in ("here", "there"))
    here.add_peer(there)
    there.add_peer(here)
    for server in (here, there):
        server.start()
    here.trust(there)
    there.trust(here)
    yield here, there
    for server in (here, there):
        server.stop()


@pytest.fixture
def couple(domains, folder, version):
    """Alice is of this domain and Bob of the other. Gives a way to start either, a second time too."""
    made = []

    def start(name, slot=None):
        server = domains[0 if name == "alice" else 1]
        made.append(Agent(server, version, f"{name}.{server.issuer}", folder / name, slot))
        return made[-1]

    pair = start("alice"), start("bobby")
    for one in pair:
        one.register()
        one.ready(retry=SOON)
    yield (*pair, start)
    for agent in made:
        agent.end()


def reaches(sender, receiver):
    """Waits for the way to the other domain: the processes of a split server find each other after the banner."""

    def told():
        online = sender.call(method="message.query_online", params={"aids": [receiver.aid]})["online"]
        return online[receiver.aid]

    eventually(f"{sender.aid} sees {receiver.aid}", told)


@pytest.mark.smoke
def test_agents_of_two_domains_write_to_each_other(couple):
    alice, bob, _ = couple
    reaches(alice, bob)
    reaches(bob, alice)

    for encrypt in (False, True):
        there = alice.send(to=bob.aid, payload=text(f"ping {encrypt}"), encrypt=encrypt)
        arrives(bob, [f"ping {encrypt}"])
        back = bob.send(to=alice.aid, payload=text(f"pong {encrypt}"), encrypt=encrypt)
        arrives(alice, [f"pong {encrypt}"])
        assert {there["status"], back["status"]} == {"delivered"}
        assert (there["cross_domain"], there["target_issuer"]) == (True, "there.test")
        acknowledged(alice, bob, there["seq"])

    assert texts(bob) == ["ping False", "ping True"]
    assert texts(alice) == ["pong False", "pong True"]
    assert {message["from"] for message in messages(bob)} == {alice.aid}
    assert alice.frames(holding="ping True")["sent"] == [], "the secret was sent in the clear"
    assert alice.frames(holding="message.v2.bootstrap")["sent"], "the keys were not fetched across"


def test_both_directions_at_once(couple):
    alice, bob, _ = couple
    reaches(alice, bob)
    reaches(bob, alice)
    for sender, receiver in ((alice, bob), (bob, alice)):
        sender.start_talk(to=receiver.aid, count=10, encrypt=True)
    for sender, receiver in ((alice, bob), (bob, alice)):
        arrives(receiver, sender.talked(count=10, seconds=60), seconds=60)
        assert len(set(texts(receiver))) == len(texts(receiver)), "a message arrived twice"
        pushed_once(receiver)


def test_whoever_was_away_catches_up(couple):
    alice, bob, start = couple
    reaches(alice, bob)
    bob.end()
    expected = send_texts(alice, bob, "plain", count=8, encrypt=False)
    expected += send_texts(alice, bob, "secret", count=4, encrypt=True)
    recalled = alice.send(to=bob.aid, payload=text("recalled"), encrypt=False)
    recalls(alice, recalled["message_id"])

    bob = start("bobby").ready(retry=SOON)
    # 0.4 and the first 0.5 pull by themselves only when something comes.
    expected += send_texts(alice, bob, "nudge", count=1, encrypt=False)
    arrives(bob, expected)
    assert "recalled" not in texts(bob)
    assert len(set(texts(bob))) == len(texts(bob)), "a message arrived twice"


def test_two_slots_of_one_device_get_the_same(couple):
    alice, bob, start = couple
    reaches(alice, bob)
    other = start("bobby", slot="second").ready(retry=SOON)
    send_texts(alice, bob, "plain", count=2, encrypt=False)
    send_texts(alice, bob, "secret", count=2, encrypt=True)
    for slot in (bob, other):
        arrives(slot, ["plain 0", "plain 1", "secret 0", "secret 1"])


def test_a_notification_crosses(couple, version):
    alice, bob, _ = couple
    reaches(alice, bob)
    alice.notify(method="event/app.greeting", params={"text": "hi"}, to=bob.aid)

    def heard():
        events = [event["data"] for event in bob.look()["events"] if event["event"] == "app.greeting"]
        return events and events[0]

    greeting = eventually("the greeting", heard)
    assert greeting["text"] == "hi"
    assert greeting["_notify"]["from_aid"] == alice.aid


def test_a_restart_over_there_does_not_disturb_whoever_is_here(couple, domains):
    alice, bob, _ = couple
    reaches(alice, bob)
    alice.start_talk(to=bob.aid, count=40, encrypt=False)
    alice.talked(count=3, seconds=60)

    domains[1].kill()
    shown = set(texts(bob))
    domains[1].start()
    bob.settle(states=["ready", "failed"], seconds=60)
    bob.recover()
    bob.wait(state="ready", seconds=60)

    sent = alice.talked(count=40, seconds=60)
    assert alice.look()["events"] == [], "the local connection was disturbed"
    arrives(bob, sent, seconds=60)
    # Only what was shown and not acknowledged when the server was killed may be shown again, under the seq it has.
    arrived = texts(bob)
    assert {one for one in arrived if arrived.count(one) > 1} <= shown, "a message arrived twice"
    stored = {(message["payload"]["text"], message["seq"]) for message in messages(bob) if "text" in message["payload"]}
    assert len(stored) == len(set(arrived)), "a message is stored twice"
