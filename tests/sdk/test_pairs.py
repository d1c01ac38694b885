"""Agents of different SDK versions, as far as the clients themselves can understand each other."""

import pytest
from agents import Failed, numbers
from aund import eventually
from message_helpers import arrives, messages, notified_in_order, recalls, send_texts, text, texts

# Newer clients upload no prekey of the first kind, and 0.2 refuses to encrypt without one.
PLAIN_ONLY = ("0.2.20>0.5.25", "0.2.20>0.3.6")
PAIRS = (
    "0.5.25>0.2.20",
    "0.2.20>0.5.25",
    "0.4.13>0.5.25",
    "0.5.25>0.4.13",
    "0.3.6>0.5.17",
    "0.5.17>0.3.6",
    "0.5.4>0.5.25",
    "0.5.25>0.5.10",
    "0.2.20>0.3.6",
)


@pytest.mark.shared
@pytest.mark.pairs(*PAIRS)
def test_two_generations_write_to_each_other(start, pair):
    writer, reader = pair.split(">")
    alice, bob = start(writer, "alice", home="alice"), start(reader, "bobby", home="bobby")
    for one in (alice, bob):
        one.register()
        one.ready()
    expected = talk(alice, bob, pair, "online")
    arrives(bob, expected)

    bob.end()
    expected += talk(alice, bob, pair, "offline")
    secret = alice.send(to=bob.aid, payload=text("recalled"), encrypt=False)
    recalls(alice, secret["message_id"])
    bob = start(reader, "bobby", home="bobby").ready()
    if numbers(reader) < (0, 3):
        messages(bob, 1)
        expected += send_texts(alice, bob, "nudge", count=1, encrypt=False)

    arrives(bob, [words for words in expected if not words.startswith("online")])
    assert len(set(texts(bob))) == len(texts(bob)), "a message arrived twice"
    assert "recalled" not in texts(bob)


@pytest.mark.shared
@pytest.mark.pairs("0.5.25>0.2.20")
def test_what_a_page_leaves_out_is_named_by_a_reminder_that_never_goes_back(start, pair):
    writer, reader = pair.split(">")
    alice, bob = start(writer, "alice", home="alice"), start(reader, "bobby", home="bobby")
    for one in (alice, bob):
        one.register()
        one.ready()
    expected = send_texts(alice, bob, "secret", count=2, encrypt=True)
    expected += send_texts(alice, bob, "plain", count=2, encrypt=False)
    arrives(bob, expected)
    before = len(notified_in_order(bob))

    bob.call(method="message.pull", params={"after_seq": 0, "limit": 50})
    eventually("a reminder", lambda: len(notified_in_order(bob)) > before)
    assert notified_in_order(bob)[-1] == 4, "it names the newest message, which is plain"
    assert len(set(texts(bob))) == len(texts(bob)), "a message arrived twice"


def talk(sender, receiver, pair, words):
    """Plain and encrypted messages; where the pair shares no encryption, the sending client says so itself."""
    sent = send_texts(sender, receiver, f"{words} plain", count=3, encrypt=False)
    if pair not in PLAIN_ONLY:
        sent += send_texts(sender, receiver, f"{words} secret", count=3, encrypt=True)
        return sent
    with pytest.raises(Failed, match="prekey"):
        sender.send(to=receiver.aid, payload=text("never"), encrypt=True)
    return sent
