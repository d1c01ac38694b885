"""Tool calls between unmodified public SDKs: encrypted, counted by the server, and never readable to it."""

import json
import subprocess

import pytest
from agents import Failed
from aund import binary
from message_helpers import couple, messages, send_texts, text

LIMIT = 60
RATE_LIMITED = -32029
# What nobody but the two agents may ever see.
SECRETS = ("open-sesame-tool", "/home/alice/plaintext-of-a-path", "plaintext-of-a-result")

pytestmark = pytest.mark.sdk(since="0.5.25")


def tool_call(number):
    return {
        "type": "artifact",
        "artifact": {
            "subtype": "tool_call",
            "call_id": f"call-{number}",
            "tool_name": SECRETS[0],
            "arguments": {"path": SECRETS[1]},
            "permission_scope": "filesystem:read",
        },
    }


def tool_response(number):
    artifact = {"subtype": "tool_response", "call_id": f"call-{number}", "status": "ok", "result": {"is": SECRETS[2]}}
    return {"type": "artifact", "artifact": artifact}


def send(sender, receiver, payload, subtype):
    """The SDK leaves out what it does not know beside an encrypted payload; its protected headers stay in the clear."""
    return sender.send(to=receiver.aid, payload=payload, encrypt=True, protected_headers={"msg_subtype": subtype})


def subtypes(received):
    return [message["envelope"]["protected_headers"]["msg_subtype"] for message in received]


def files_holding(folder, words):
    """The files below a folder that hold one of these words."""
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in found if any(word.encode() in path.read_bytes() for word in words)]


def test_sixty_encrypted_calls_arrive_and_the_next_one_is_refused(agent, server):
    alice, bob = couple(agent)
    for number in range(LIMIT):
        assert send(alice, bob, tool_call(number), "artifact_tool_call")["status"] == "delivered"
    with pytest.raises(Failed) as refused:
        send(alice, bob, tool_call(LIMIT), "artifact_tool_call")
    assert refused.value.code == RATE_LIMITED

    received = messages(bob, LIMIT)
    assert [message["payload"] for message in received] == [tool_call(number) for number in range(LIMIT)]
    assert subtypes(received) == ["artifact_tool_call"] * LIMIT
    sent = alice.frames(holding="e2ee.p2p_encrypted")["sent"]
    assert not any(secret in frame for frame in sent for secret in SECRETS)

    # Answers and other messages go on, in both directions.
    for number in range(LIMIT + 1):
        send(bob, alice, tool_response(number), "artifact_response")
    answers = messages(alice, LIMIT + 1)
    assert [message["payload"] for message in answers] == [tool_response(number) for number in range(LIMIT + 1)]
    assert subtypes(answers) == ["artifact_response"] * (LIMIT + 1)
    send_texts(alice, bob, "and on", count=1, encrypt=True)
    assert messages(bob, LIMIT + 1)[-1]["payload"] == text("and on 0")

    assert files_holding(server.folder, SECRETS) == []
    if server.store == "sqlite:":
        # What is in the clear is found, so what is not found is not there.
        assert files_holding(server.data, ["artifact_tool_call"])


def test_a_call_in_the_clear_counts_with_the_encrypted_ones(agent):
    alice, bob = couple(agent)
    members = {"msg_subtype": "artifact_tool_call", "content_type": "artifact"}
    alice.send(to=bob.aid, payload=text("by its subtype"), encrypt=False, **members)
    alice.send(to=bob.aid, payload=tool_call(1), encrypt=False)
    for number in range(2, LIMIT):
        send(alice, bob, tool_call(number), "artifact_tool_call")

    for attempt in (
        lambda: alice.send(to=bob.aid, payload=text("by its subtype"), encrypt=False, **members),
        lambda: alice.send(to=bob.aid, payload=tool_call(LIMIT), encrypt=False),
        lambda: send(alice, bob, tool_call(LIMIT), "artifact_tool_call"),
    ):
        with pytest.raises(Failed) as refused:
            attempt()
        assert refused.value.code == RATE_LIMITED
    messages(bob, LIMIT)
    heard = bob.frames(holding="by its subtype")["heard"]
    assert heard and all('"msg_subtype":"artifact_tool_call","content_type":"artifact"' in frame for frame in heard)


MANIFEST = {
    "schema_version": "1.0",
    "agent_version": "1.0.0",
    "tools": [
        {
            "name": "read_file",
            "description_i18n_key": "agent.cap.read_file.description",
            "input_schema": {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
                "additionalProperties": False,
            },
            "permission_scope": "filesystem:read",
        }
    ],
    "permission_scopes": [
        {"id": "filesystem:read", "label_i18n_key": "agent.scope.filesystem_read.label", "sensitivity": "medium"}
    ],
    "capability_flags": {},
}


class Device:
    """The device of a person: `aund tool decide`, with an agent of its own for its audit trail."""

    def __init__(self, server, folder):
        self.home, self.manifest = folder / "device", folder / "manifest.json"
        self.manifest.write_text(json.dumps(MANIFEST))
        gateway = f"ws://{server.address}:{server.plain_port}/aun"
        command = [binary(), "register", "device", "--gateway", gateway, "--root", server.root, "--home", self.home]
        subprocess.run(command, check=True, capture_output=True)

    def decide(self, message, *words):
        command = [binary(), "tool", "decide", "--home", self.home, "--manifest", self.manifest, *words]
        given = json.dumps(message)
        answer = subprocess.run(command, input=given, check=True, capture_output=True, text=True).stdout
        return json.loads(answer) if answer else None


def test_what_a_device_decides_reaches_the_agent(agent, server, folder):
    reader, person = couple(agent)
    device = Device(server, folder)
    granted, result = ["--granted", "filesystem:read"], ["--result", json.dumps({"content": SECRETS[2]})]
    for number, (tool, arguments, words, expected) in enumerate(
        [
            ("read_file", {"path": SECRETS[1]}, [*granted, *result, "--yes"], {"status": "ok", "result": {"content": SECRETS[2]}}),
            ("read_file", {"path": SECRETS[1]}, result, {"status": "denied", "reason": "scope_not_granted"}),
            ("read_file", {"path": 7}, granted, {"status": "error", "error_code": "TOOL_INVALID_ARGUMENTS"}),
            ("format_disk", {}, granted, {"status": "denied", "reason": "tool_not_declared"}),
        ]
    ):
        call = tool_call(number)
        call["artifact"] |= {"tool_name": tool, "arguments": arguments}
        send(reader, person, call, "artifact_tool_call")
        received = messages(person, number + 1)[-1]
        answer = device.decide(received, *words)
        send(person, reader, answer, "artifact_response")
        arrived = messages(reader, number + 1)[-1]["payload"]["artifact"]
        assert {name: arrived.get(name) for name in expected} == expected
        assert (arrived["subtype"], arrived["call_id"]) == ("tool_response", f"call-{number}")
    # A call that its envelope does not show as one is not answered.
    send(reader, person, tool_call(9), "artifact_response")
    assert device.decide(messages(person, 5)[-1], *granted, *result, "--yes") is None
    assert files_holding(server.folder, SECRETS) == []
