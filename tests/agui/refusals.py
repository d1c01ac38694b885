"""What an input is refused for: a row per sentence of the contract, each wrong in one thing alone."""

import copy
import uuid
from dataclasses import dataclass

from api import LENIENT, STRICT, user
from front_end import NEW, OLD

BOTH = (STRICT, LENIENT)
# The part of the input that a row changes. Two rows with different parts can be wrong at once.
MESSAGES, PROPS = "messages", "forwardedProps"

SIZE = "RunAgentInput payload exceeds size limit"
FORM = "invalid RunAgentInput"
THREAD = "threadId must be a valid UUID"
RUN = "runId exceeds length limit"
MANY = "RunAgentInput.messages exceeds limit"
ONE_USER = "RunAgentInput.messages must contain exactly one user message"
USER_FIRST = "RunAgentInput.messages[0].role must be user"
TEXT = "RunAgentInput user message text exceeds limit"
DATA = "binary content data is not allowed"
MIME = "binary content requires image mimeType"
URL = "binary content requires url"
ATTACHMENTS = "Too many attachments"
SIGNED = "binary content url is not a valid signed URL"
FORWARDED = "invalid RunAgentInput.forwardedProps"
ZONE = "invalid client_time.device_timezone"
NOW = "invalid client_time.client_now_iso"
EPOCH = "invalid client_time.client_epoch_ms"

# In the order in which they are looked for.
ORDER = [
    SIZE,
    FORM,
    THREAD,
    RUN,
    MANY,
    ONE_USER,
    USER_FIRST,
    TEXT,
    DATA,
    MIME,
    URL,
    ATTACHMENTS,
    SIGNED,
    FORWARDED,
    ZONE,
    NOW,
    EPOCH,
]


@dataclass(frozen=True)
class Row:
    name: str
    detail: str
    change: object
    part: str = MESSAGES
    routes: tuple = BOTH
    # The published clients that can send it: the one of 1.0 removes or refuses what its schema does not describe.
    clients: tuple = (NEW, OLD)

    def of(self, input):
        changed = copy.deepcopy(input)
        self.change(changed)
        return changed


def put(**members):
    return lambda input: input.update(copy.deepcopy(members))


def drop(name):
    return lambda input: input.pop(name)


def content(value):
    return lambda input: input.update(messages=[user(copy.deepcopy(value))])


def also(*messages):
    """After the message of the user."""
    return lambda input: input["messages"].extend(copy.deepcopy(list(messages)))


def mode(**members):
    return put(forwardedProps={"runtime_mode": "chat", **members})


def at(**members):
    """A time of the client with one thing changed; None leaves it out."""
    right = {
        "device_timezone": "America/Los_Angeles",
        "client_now_iso": "2026-03-16T09:12:33-07:00",
        "client_epoch_ms": 1773658353000,
    }
    wrong = {name: value for name, value in {**right, **members}.items() if value is not None}
    return mode(client_time=wrong)


def assistant(number=0, **members):
    return {"id": f"a{number}", "role": "assistant", "content": "said", **members}


def binary(**members):
    return [{"type": "text", "text": "look"}, {"type": "binary", "mimeType": "image/png", **members}]


def media(kind="image", **source):
    return [{"type": "text", "text": "look"}, {"type": kind, "source": source}]


PICTURE = "https://pictures.example/one.png"

ROWS = [
    Row("more than 256 KiB", SIZE, put(state={"notes": "x" * 262_144}), "state"),
    Row("a thread that is no text", FORM, put(threadId=7), "threadId", clients=(OLD,)),
    Row("no thread", FORM, drop("threadId"), "threadId", clients=()),
    Row("no run", FORM, drop("runId"), "runId", clients=()),
    Row("no messages", FORM, drop("messages"), clients=()),
    Row("messages that are no list", FORM, put(messages={}), clients=()),
    Row("a message without an id", FORM, put(messages=[{"role": "user", "content": "Hello"}]), clients=(OLD,)),
    Row("a role that there is not", FORM, also({"id": "x", "role": "robot", "content": "x"}), clients=(OLD,)),
    Row("content that is a number", FORM, content(7), clients=(OLD,)),
    Row("a block that there is not", FORM, content([{"type": "hologram"}]), clients=(OLD,)),
    Row("no text and no attachment", FORM, content("")),
    Row("no blocks", FORM, content([])),
    Row("a result of no tool call", FORM, also({"id": "t", "role": "tool", "content": "x"}), clients=(OLD,)),
    Row("tool calls without names", FORM, also(assistant(toolCalls=[{"id": "c", "type": "function"}])), clients=(OLD,)),
    Row("tools that are no list", FORM, put(tools="clock"), "tools", clients=(OLD,)),
    Row("a tool without a name", FORM, put(tools=[{"description": "x", "parameters": {}}]), "tools", clients=(OLD,)),
    Row("a context without a value", FORM, put(context=[{"description": "x"}]), "context", clients=(OLD,)),
    Row("a thread that is no UUID", THREAD, put(threadId="the garden"), "threadId"),
    Row("a thread without a name", THREAD, put(threadId=""), "threadId"),
    Row("a run with a long name", RUN, put(runId="r" * 129), "runId"),
    Row("a run without a name", RUN, put(runId=""), "runId", clients=()),
    Row("201 messages", MANY, also(*(assistant(number) for number in range(200)))),
    Row("no message of the user", ONE_USER, put(messages=[assistant()])),
    Row("no message at all", ONE_USER, put(messages=[])),
    Row("two messages of the user", ONE_USER, also({"id": "u2", "role": "user", "content": "and more"}), routes=(STRICT,)),
    Row("something before the user", USER_FIRST, lambda input: input["messages"].insert(0, assistant()), routes=(STRICT,)),
    Row("10,001 characters", TEXT, content("é" * 10_001)),
    Row("10,001 characters in two blocks", TEXT, content([{"type": "text", "text": "x" * size} for size in (5_000, 5_001)])),
    Row("bytes in a binary block", DATA, content(binary(data="aGk=")), clients=(OLD,)),
    Row("bytes beside a URL", DATA, content(binary(url=PICTURE, data="aGk=")), clients=(OLD,)),
    Row("bytes in an image", DATA, content(media(type="data", value="aGk=", mimeType="image/png"))),
    Row("a binary block of another type", MIME, content(binary(mimeType="application/pdf", url=PICTURE)), clients=(OLD,)),
    Row("sound", MIME, content(media("audio", type="url", value=PICTURE))),
    Row("a film", MIME, content(media("video", type="url", value=PICTURE))),
    Row("a document", MIME, content(media("document", type="url", value=PICTURE))),
    Row("a picture that is nowhere", URL, content(binary()), clients=(OLD,)),
    Row("four pictures", ATTACHMENTS, content([{"type": "text", "text": "look"}, *media(type="url", value=PICTURE)[1:] * 4])),
    Row("a picture of another server", SIGNED, content(media(type="url", value=PICTURE))),
    Row("a picture of another server in a binary block", SIGNED, content(binary(url=PICTURE)), clients=(OLD,)),
    Row("no forwardedProps", FORWARDED, drop("forwardedProps"), PROPS, routes=(STRICT,), clients=()),
    Row("no mode", FORWARDED, put(forwardedProps={}), PROPS, routes=(STRICT,)),
    Row("forwardedProps that are no object", FORWARDED, put(forwardedProps="chat"), PROPS),
    Row("a mode that there is not", FORWARDED, put(forwardedProps={"runtime_mode": "dream"}), PROPS),
    Row("a property that there is not", FORWARDED, mode(colour="blue"), PROPS, routes=(STRICT,)),
    Row("a zone that there is not", ZONE, at(device_timezone="Mars/Olympus_Mons"), PROPS),
    Row("a zone that is an offset", ZONE, at(device_timezone="-07:00"), PROPS),
    Row("no zone", ZONE, at(device_timezone=None), PROPS),
    Row("a time without an offset", NOW, at(client_now_iso="2026-03-16T09:12:33"), PROPS),
    Row("a time that is none", NOW, at(client_now_iso="yesterday"), PROPS),
    Row("no time", NOW, at(client_now_iso=None), PROPS),
    Row("an epoch that is a text", EPOCH, at(client_epoch_ms="1773658353000"), PROPS),
    Row("an epoch with a fraction", EPOCH, at(client_epoch_ms=1773658353000.5), PROPS),
    Row("no epoch", EPOCH, at(client_epoch_ms=None), PROPS),
]

BY_ROUTE = [(row, route) for row in ROWS for route in row.routes]
BY_CLIENT = [(row, route, client) for row, route in BY_ROUTE for client in row.clients]


def names(value):
    """The name of a row in the name of its test."""
    return value.name if isinstance(value, Row) else str(value).rpartition("/")[2]


def new_thread():
    return str(uuid.uuid4())
