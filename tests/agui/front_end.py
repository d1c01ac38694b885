"""A front end: a process of Node with one published client, unmodified, and what the client saw."""

import json
import os
import queue
import subprocess
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

from api import frames_of
from aund import ROOT, drain

HERE = Path(__file__).parent
PACKAGES = Path(os.environ.get("AUND_AGUI_NPM", ROOT / "target" / "tests" / "agui-npm"))
# Generous: a run that nobody has begun yet starts a runner first.
SECONDS = 150

NEW, OLD = "1.0.0", "0.0.47"
NPM_NAMES = {NEW: "@ag-ui/client", OLD: "ag-ui-client-before-1"}

# Every type that a stream of ours may have: a browser hears only the types that it listens for.
TYPES = [
    *("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "STEP_STARTED", "STEP_FINISHED", "CUSTOM"),
    *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
    *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"),
    *("REASONING_START", "REASONING_END", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"),
]


class FrontEnd:
    """One process; every command of the driver is a method."""

    def __init__(self, version, environment=None):
        self.version = version
        self.process = subprocess.Popen(
            ["node", HERE / "npm" / "driver.mjs", PACKAGES, NPM_NAMES[version]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )
        self.answers = queue.Queue()
        threading.Thread(target=drain, args=(self.process.stdout, self.answers), daemon=True).start()
        self.said = []

    def ask(self, command, **details):
        request = {"id": uuid.uuid4().hex, "do": command, "with": details}
        self.process.stdin.write((json.dumps(request) + "\n").encode())
        self.process.stdin.flush()
        line = self.answers.get(timeout=SECONDS)
        assert line is not None, f"the front end ended with {self.process.wait()}"
        answer = json.loads(line)
        self.said += answer["said"]
        assert answer["id"] == request["id"]
        assert "failed" not in answer, f"{command}: {answer['failed']}"
        return answer["done"]

    def open(self, url, token, thread=None):
        """A conversation at a route, as the application of a front end begins it."""
        return Conversation(self, **self.ask("open", url=url, token=token, threadId=thread))

    def follow(self, url, token, cuts=(), until=("RUN_FINISHED", "RUN_ERROR")):
        """What an EventSource hears of a stream, with its connection lost after each of these numbers of bytes."""
        return self.ask("follow", url=url, token=token, cuts=list(cuts), until=list(until), types=TYPES)

    def flaws(self, events=(), inputs=()):
        return self.ask("flaws", events=list(events), inputs=list(inputs))

    def take_said(self):
        """What the client has said on the console since this was asked last."""
        said, self.said = self.said, []
        return said

    def end(self):
        self.process.kill()
        self.process.wait()


class Conversation:
    """An `HttpAgent` of the client, which has a thread and the messages that the application shows."""

    def __init__(self, front_end, agent, threadId):
        self.front_end = front_end
        self.agent = agent
        self.thread = threadId

    def say(self, text, **how):
        return self.begin(text, **how).end()

    def begin(self, text=None, *, reset=False, messages=None, state=None, run=None, **parameters):
        """Begins a run with one more message of the user. `reset` forgets what was said before, as the strict route asks for."""
        add = None if text is None else {"id": str(uuid.uuid4()), "role": "user", "content": text}
        parameters = {"runId": run or str(uuid.uuid4()), **parameters}
        begun = self.front_end.ask(
            "begin",
            agent=self.agent,
            messages=[] if reset else messages,
            add=add,
            state=state,
            parameters=parameters,
        )
        return Run(self.front_end, begun["run"], parameters["runId"])


class Run:
    def __init__(self, front_end, number, run_id):
        self.front_end = front_end
        self.number = number
        self.id = run_id

    def until(self, event_type, text=None):
        """Waits until the application was told of such an event."""
        self.front_end.ask("until", run=self.number, type=event_type, text=text)
        return self

    def abort(self):
        """What a page does that is closed, or whose user has pressed stop."""
        self.front_end.ask("abort", run=self.number)
        return self

    def end(self):
        seen = Seen(**self.front_end.ask("end", run=self.number))
        seen.said = self.front_end.take_said()
        return seen


@dataclass
class Seen:
    """What the application of a front end saw of a run, and what crossed the wire."""

    events: list
    messages: list
    newMessages: list | None
    result: object
    pendingInterrupts: list | None
    error: dict | None
    status: int | None
    contentType: str | None
    requestHeaders: dict | None
    input: dict | None
    wire: str
    said: list = None

    @property
    def frames(self):
        return frames_of(self.wire)

    @property
    def types(self):
        return [event["type"] for event in self.events]

    @property
    def last(self):
        return self.events[-1]

    def of(self, event_type):
        return [event for event in self.events if event["type"] == event_type]

    @property
    def text(self):
        """All that the assistant says."""
        return "".join(event["delta"] for event in self.of("TEXT_MESSAGE_CONTENT"))

    @property
    def replies(self):
        """The messages that an application shows, without tools."""
        return [message for message in self.newMessages if message["role"] == "assistant" and message.get("content")]


def checked(seen, front_end):
    """A run as every run has to be: nothing was warned of, every frame is as 1.0 describes it, and nothing else is in it."""
    assert seen.error is None, f"{seen.error}; the events are {seen.events}"
    assert seen.said == [], "the client has something to complain about"
    assert (seen.status, seen.contentType) == (200, "text/event-stream"), seen.wire
    frames = seen.frames
    numbers = [tuple(map(int, frame["id"].split("-"))) for frame in frames]
    assert numbers == sorted(set(numbers)), "ids rise"
    for frame in frames:
        assert frame["event"] == frame["data"]["type"]
        assert not list(nulls(frame["data"])), f"an optional member is left out, not null: {frame}"
    assert [frame["event"] for frame in frames] == seen.types, "the client has dropped or made up nothing"
    flaws = front_end.flaws(events=[frame["data"] for frame in frames])
    assert flaws == []
    # The clients do not miss it where a stream just stops.
    assert frames[-1]["event"] in ("RUN_FINISHED", "RUN_ERROR"), seen.wire
    first = frames[0]["data"]
    assert (first["type"], first["threadId"], first["runId"]) == ("RUN_STARTED", seen.input["threadId"], seen.input["runId"])
    # A client before 1.0 has no such member, and is not shown one.
    assert first.get("protocolVersion") == seen.input.get("protocolVersion")
    return seen


def nulls(event):
    """The members of an event that are null. What is inside a document of somebody else is not ours."""
    for name, value in event.items():
        if value is None:
            yield name
        elif isinstance(value, dict) and name not in ("value", "metadata", "responseSchema"):
            yield from nulls(value)
