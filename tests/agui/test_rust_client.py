"""The published client for Rust. It sends no Accept header, knows fewer events than 1.0, and takes only UUIDs as ids of messages."""

import json
import os
import subprocess
import uuid
from pathlib import Path

import pytest
from api import CHAT, LENIENT, queued
from aund import ROOT

pytestmark = pytest.mark.rust_client
PROGRAM = Path(os.environ.get("AUND_AGUI_RUST", ROOT / "target" / "tests" / "agui-rust" / "debug" / "agui-events"))


def seen(person, text, token=None, **asked):
    asked = {"threadId": str(uuid.uuid4()), "runId": str(uuid.uuid4()), "text": text, "forwardedProps": CHAT, **asked}
    # Without TLS: the client knows no roots but those of the system.
    ran = subprocess.run(
        [PROGRAM, person.url(LENIENT), token or person.token],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert ran.returncode == 0, ran.stderr
    return asked, json.loads(ran.stdout)


@pytest.mark.parametrize("text", ["Hello", "What time is it? /tool", "tomorrow /calendar", "show me /ui", "/calendar bare"])
def test_every_event_is_understood(person, text):
    asked, got = seen(person, text)
    assert got["error"] is None, got
    frames = person.events(asked["threadId"], asked["runId"])
    assert [event["type"] for event in got["events"]] == [frame["event"] for frame in frames]
    assert "".join(event["delta"] for event in got["events"] if event["type"] == "TEXT_MESSAGE_CONTENT") == f"You said: {text}"


def test_a_thread_goes_on(person):
    asked, _ = seen(person, "first", forwardedProps={})
    _, got = seen(person, "second", threadId=asked["threadId"])
    assert got["error"] is None
    assert person.replies(asked["threadId"]) == ["You said: first", "You said: second"]


@pytest.mark.parametrize("text, last", [("/fail", "RUN_ERROR"), ("May you? /ask", "RUN_FINISHED")])
def test_the_end_of_a_run_is_understood(person, text, last):
    _, got = seen(person, text)
    assert (got["error"], got["events"][-1]["type"]) == (None, last)


def test_a_refusal_is_no_event(person):
    # The client does not look at the status: a body that is no stream has no events.
    _, got = seen(person, "Hello", token="nobody's")
    assert got["events"] == []


@pytest.mark.slow
def test_a_comment_is_no_event(person):
    """The client takes all that ends with an empty line for an event: a comment must not end with one."""
    _, got = seen(person, "at last", threadId=queued(person, 2))
    assert (got["error"], got["events"][-1]["type"]) == (None, "RUN_FINISHED")
