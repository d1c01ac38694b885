"""The routes below /api/v1/agent/ as anybody may call them: bytes in, bytes out."""

import asyncio
import http.client
import json
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "sdk"))
sys.path.insert(0, str(Path(__file__).parents[1] / "crash"))

from aund import Aund, eventually, split  # noqa: E402, they need the path
from connection import Key, opened  # noqa: E402

BASE = "/api/v1/agent"
STRICT, LENIENT = f"{BASE}/runs", f"{BASE}/ag-ui"
CHAT = {"runtime_mode": "chat"}
JSON, STREAM = "application/json", "text/event-stream"
# Generous: the first run of a thread starts a runner.
SECONDS = 150


class AguiServer(Aund):
    """A server whose runs have runners, in one process and in many."""

    def _write_config(self):
        super()._write_config()
        settings = ["[run]"]
        if split():
            # The process of runs knows by itself only of a gateway beside it.
            settings.append(f'manager_url = "http://{self.address}:{self.plain_port}"')
        # Every agent may look at the runs behind its threads, too.
        settings += ["[run.tenants.hwlab]", 'aids = ["*"]', "[run.agui]", 'tenant = "hwlab"']
        with (self.folder / "aund.toml").open("a") as file:
            file.write("\n".join(settings) + "\n")

    def stop(self):
        super().stop()
        self._kill_runners()


class Person:
    """An agent with its access token, and what it may ask for over HTTP."""

    def __init__(self, server, name):
        self.server = server
        self.aid = f"{name}-{uuid.uuid4().hex[:8]}.{server.issuer}"
        self.token = asyncio.run(logged_in(server, self.aid))

    def url(self, path):
        return f"http://{self.server.address}:{self.server.plain_port}{path}"

    def call(self, verb, path, body=None, *, accept=JSON, headers=None, token=None):
        """The whole answer; a body that is not bytes yet is written as JSON."""
        connection = http.client.HTTPConnection(self.server.address, self.server.plain_port, timeout=SECONDS)
        try:
            connection.request(verb, path, as_bytes(body), self.headers(accept, body, headers, token))
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def headers(self, accept, body, more, token):
        headers = {"Host": self.server.gateway, "Accept": accept}
        if token != "":
            headers["Authorization"] = f"Bearer {token or self.token}"
        if body is not None:
            headers["Content-Type"] = JSON
        return {**headers, **(more or {})}

    def post(self, body, route=STRICT, **how):
        return self.call("POST", route, body, **how)

    def stream(self, body, route=STRICT):
        """The frames of a run, to its end."""
        answer = self.post(body, route, accept=STREAM)
        assert answer.status == 200, answer.body
        return frames_of(answer.text)

    def listen(self, path, body=None):
        """A stream that is read as it grows: of a run that this begins, or of one that there is."""
        return Listener(self, path, body)

    def events(self, thread, run=None, last=None, query=""):
        """The frames of a stream that is read later."""
        path = f"{STRICT}/{thread}/events?{query}" + (f"&runId={run}" if run else "")
        answer = self.call("GET", path, accept=STREAM, headers={"Last-Event-ID": last} if last else None)
        # Who has every frame of a run that is over is told not to come again.
        if answer.status == 204 and last:
            return []
        assert answer.status == 200, answer.body
        return frames_of(answer.text)

    def history(self, thread=None, **query):
        query = "&".join(f"{name}={value}" for name, value in {**({"threadId": thread} if thread else {}), **query}.items())
        answer = self.call("GET", f"{BASE}/history?{query}")
        assert answer.status == 200, answer.body
        return answer.json

    def replies(self, thread):
        """What the assistant has said in a thread, by the history of its last day."""
        return [message["content"] for message in self.history(thread)["messages"] if message["role"] == "assistant"]

    def cancel(self, thread, run):
        return self.call("POST", f"{STRICT}/{thread}/cancel?runId={run}")

    def upload(self, data, mime_type="image/png", name="picture.png"):
        edge = uuid.uuid4().hex
        head = f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: {mime_type}\r\n\r\n'
        body = head.encode() + data + f"\r\n--{edge}--\r\n".encode()
        return self.call("POST", f"{BASE}/attachments", body, headers={"Content-Type": f"multipart/form-data; boundary={edge}"})


class Listener:
    """The frames of a stream so far. Who leaves it hangs up."""

    def __init__(self, person, path, body):
        self.connection = http.client.HTTPConnection(person.server.address, person.server.plain_port, timeout=SECONDS)
        self.connection.request("GET" if body is None else "POST", path, as_bytes(body), person.headers(STREAM, body, None, None))
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.connection.close()

    @property
    def frames(self):
        return frames_of(self.text)

    def until(self, event, text=""):
        """Reads on to the end of such a frame."""
        while True:
            for frame in self.frames[-1:]:
                if frame["event"] == event and text in json.dumps(frame):
                    return frame
            line = self.answer.readline().decode()
            while line not in ("\n", ""):
                self.text += line
                line = self.answer.readline().decode()
            assert line, f"the stream ended before {event}: {self.text}"
            self.text += line


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    def header(self, name):
        return next((value for key, value in self.headers.items() if key.lower() == name.lower()), None)


async def logged_in(server, aid):
    key = Key()
    async with opened(server) as connection:
        certificate = await connection.register(aid, key)
        return (await connection.login(aid, key, certificate))["access_token"]


def as_bytes(body):
    return body if body is None or isinstance(body, bytes) else json.dumps(body).encode()


def new_input(text="Hello", **members):
    """The input of a run, as the contract shows it."""
    return {
        "threadId": str(uuid.uuid4()),
        "runId": str(uuid.uuid4()),
        "state": {},
        "messages": [user(text)],
        "tools": [],
        "context": [],
        "forwardedProps": dict(CHAT),
        **members,
    }


def user(content):
    return {"id": str(uuid.uuid4()), "role": "user", "content": content}


def frames_of(text):
    """The frames of a stream, whole or cut off; comments are none."""
    frames = []
    for block in text.split("\n\n")[:-1]:
        lines = [line.partition(": ") for line in block.split("\n") if not line.startswith(":")]
        if lines:
            fields = {name: value for name, _, value in lines}
            assert sorted(fields) == ["data", "event", "id"], block
            frames.append({"id": fields["id"], "event": fields["event"], "data": json.loads(fields["data"])})
    return frames


def queued(person, many):
    """A thread in which so many runs of ten seconds come first."""
    thread = str(uuid.uuid4())
    for _ in range(many):
        answer = person.post(new_input("count /slow", threadId=thread))
        assert answer.status == 202, answer.body
    return thread


def ended(person, thread, replies):
    """Waits until a thread has so many replies."""
    return eventually(f"{replies} replies", lambda: len(found := person.replies(thread)) >= replies and found, SECONDS)
