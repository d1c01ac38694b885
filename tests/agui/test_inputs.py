"""Inputs of runs over HTTP: every sentence of the contract, what is accepted at its edge, and both spellings."""

import json
import re
import uuid

import pytest
from api import CHAT, LENIENT, STREAM, STRICT, Person, new_input, user
from front_end import NEW
from refusals import BY_CLIENT, BY_ROUTE, ORDER, ROWS, SIGNED, names

ROUTES = pytest.mark.parametrize("route", [STRICT, LENIENT])


@pytest.mark.smoke
@pytest.mark.parametrize("row, route", BY_ROUTE, ids=names)
def test_an_input_that_is_wrong_in_one_thing_is_refused_for_it(person, row, route):
    input = row.of(new_input())
    for accept in ("application/json", STREAM):
        answer = person.post(input, route, accept=accept)
        assert (answer.status, answer.json["detail"], answer.json["code"]) == (422, row.detail, "RUN_INPUT_INVALID")
        assert re.fullmatch("[0-9a-f]{32}", answer.json["traceId"])
        assert answer.header("Content-Type").startswith("application/json")
        if row.detail == "invalid RunAgentInput":
            assert answer.json["errors"], "it says where"
            assert all(set(error) == {"path", "message"} for error in answer.json["errors"])
        else:
            assert "errors" not in answer.json
    thread = input.get("threadId")
    if isinstance(thread, str) and thread.count("-") == 4:
        assert person.call("GET", f"/api/v1/agent/history?threadId={thread}").status == 404, "nothing is kept of it"


@pytest.mark.npm
@pytest.mark.parametrize("row, route, client", BY_CLIENT, ids=names)
def test_a_client_hands_the_sentence_to_its_application(front_ends, person, row, route, client):
    front_end = front_ends(client)
    front_end.take_said()
    input = row.of(new_input())
    conversation = front_end.open(person.url(route), person.token, input["threadId"])
    parameters = {name: input[name] for name in ("tools", "context", "forwardedProps")}
    run = conversation.begin(messages=input["messages"], state=input["state"], run=input["runId"], **parameters)
    seen = run.end()
    if input["threadId"] == "":
        # Such a client has its own idea of a thread without a name.
        assert seen.error is None or seen.error["payload"]["detail"] == row.detail
        return
    assert seen.error is not None, seen.events
    assert (seen.error["status"], seen.error["payload"]["detail"]) == (422, row.detail), seen.error
    assert seen.error["message"].startswith("HTTP 422: ")
    assert seen.events == []
    if client == NEW:
        assert [line["level"] for line in seen.said] == ["error"], "it has removed nothing from what it sent"


def test_of_several_mistakes_the_first_of_the_contract_is_named(server):
    rows = [row for row in ROWS if STRICT in row.routes]
    for one in rows:
        # An agent may post a hundred inputs at once, and there are more pairs.
        person = Person(server, "alice")
        for other in (row for row in rows if one.part < row.part):
            answer = person.post(other.of(one.of(new_input())))
            expected = min(one.detail, other.detail, key=ORDER.index)
            assert (answer.status, answer.json["detail"]) == (422, expected), f"{one.name}, {other.name}"


@ROUTES
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"Hello"', b"null", b"{}", b'{"threadId":1e999}'])
def test_a_body_that_is_no_input_is_refused(person, route, body):
    answer = person.post(body, route)
    assert (answer.status, answer.json["detail"]) == (422, "invalid RunAgentInput")


def test_a_body_that_is_no_text_is_refused(person):
    """Where the answer is JSON, the gateway reads the body before the service does."""
    for route, status in [(STRICT, 400), (LENIENT, 422)]:
        answer = person.post(b"\xff", route)
        assert (answer.status, sorted(answer.json)[:2]) == (status, ["code", "detail"])


@ROUTES
def test_limits_include_their_number(person, route):
    thread = str(uuid.uuid4())
    padding = 262_144 - len(json.dumps(new_input(state={"notes": ""})))
    for input in [
        new_input(state={"notes": "x" * padding}),
        new_input(runId="r" * 128),
        {**new_input(), "messages": [user("Hello"), *({"id": f"a{n}", "role": "assistant", "content": "x"} for n in range(199))]},
        # Characters, not bytes and not halves of a pair.
        new_input("😀" * 10_000),
    ]:
        answer = person.post({**input, "threadId": thread}, route, accept=STREAM)
        assert answer.status == 200, answer.body
        assert answer.text.rstrip().rpartition("event: ")[2].startswith("RUN_FINISHED")


SNAKE = {
    "threadId": "thread_id",
    "runId": "run_id",
    "parentRunId": "parent_run_id",
    "forwardedProps": "forwarded_props",
    "toolCalls": "tool_calls",
    "toolCallId": "tool_call_id",
    "encryptedValue": "encrypted_value",
    "mimeType": "mime_type",
    "activityType": "activity_type",
}


def with_everything():
    """An input with every member and every role that there is."""
    call = {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": "{}"}, "encryptedValue": "e"}
    return {
        **new_input(),
        "parentRunId": "before",
        "tools": [{"name": "get_weather", "description": "weather", "parameters": {"type": "object", "properties": {}}}],
        "context": [{"description": "place", "value": "Berlin"}],
        "messages": [
            {
                **user([{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]),
                "name": "alice",
                "encryptedValue": "e",
            },
            {"id": "m2", "role": "assistant", "content": None, "name": None, "toolCalls": [call], "encryptedValue": None},
            {"id": "m3", "role": "tool", "content": "noon", "toolCallId": "c1", "error": None, "encryptedValue": None},
            {"id": "m4", "role": "system", "content": "be brief", "name": None, "encryptedValue": None},
            {"id": "m5", "role": "developer", "content": "be exact"},
            {"id": "m6", "role": "reasoning", "content": "hm", "encryptedValue": "e"},
            {"id": "m7", "role": "activity", "activityType": "progress", "content": {"done": 1}},
        ],
    }


def said_in(frames):
    """The words of a reply. How the blocks of a message are joined is not said."""
    return " ".join("".join(frame["data"].get("delta", "") for frame in frames).split())


def snake(value):
    if isinstance(value, list):
        return [snake(item) for item in value]
    if isinstance(value, dict):
        return {SNAKE.get(name, name): snake(item) for name, item in value.items()}
    return value


@ROUTES
def test_members_may_be_written_in_either_spelling_and_answers_are_in_camel_case(person, route):
    camel, snaked = with_everything(), snake(with_everything())
    assert "thread_id" in snaked and "tool_call_id" in json.dumps(snaked)
    for input, thread, run in [(camel, camel["threadId"], camel["runId"]), (snaked, snaked["thread_id"], snaked["run_id"])]:
        frames = person.stream(input, route)
        assert frames[0]["data"]["threadId"] == thread
        assert frames[0]["data"]["runId"] == run
        assert frames[0]["data"]["parentRunId"] == "before"
        assert said_in(frames) == "You said: Hello there"
        assert not [frame for frame in frames if "thread_id" in json.dumps(frame)]


@pytest.mark.parametrize("camel", ["threadId", "runId", "parentRunId", "forwardedProps"])
@ROUTES
def test_both_spellings_at_once_are_refused(person, route, camel):
    input = {**new_input(), "parentRunId": "before"}
    answer = person.post({**input, SNAKE[camel]: input[camel]}, route)
    assert (answer.status, answer.json["detail"]) == (422, f"duplicate field: {camel}")


def test_both_spellings_inside_a_message_are_refused(person):
    input = with_everything()
    input["messages"][2]["tool_call_id"] = "c1"
    answer = person.post(input)
    assert (answer.status, answer.json["detail"]) == (422, "duplicate field: toolCallId")


@ROUTES
def test_members_that_the_contract_does_not_know_are_ignored(person, route):
    frames = person.stream({**new_input(), "colour": "blue", "protocolVersion": "1.0"}, route)
    assert frames[0]["data"]["protocolVersion"] == "1.0"
    assert "colour" not in json.dumps(frames)


def test_what_may_be_left_out_may_be_left_out(person):
    minimal = {name: value for name, value in new_input().items() if name not in ("state", "tools", "context")}
    assert person.stream(minimal)[-1]["event"] == "RUN_FINISHED"


def test_the_other_route_needs_no_forwarded_props_and_ignores_those_of_others(person):
    input = new_input()
    for props in ({}, {"a2ui": True}, {"runtime_mode": "chat", "theme": "dark"}, {"runtime_mode": "automation"}):
        frames = person.stream({**input, "runId": str(uuid.uuid4()), "forwardedProps": props}, LENIENT)
        assert frames[-1]["event"] == "RUN_FINISHED", props
    del input["forwardedProps"]
    assert person.stream(input, LENIENT)[-1]["event"] == "RUN_FINISHED"


def test_the_samples_of_the_contract_are_accepted(person):
    """The fourth has a time and an epoch that are more than five hours apart."""
    thread, message = "550e8400-e29b-41d4-a716-446655440000", "帮我明天早上9点创建一个日历"
    thread = thread[:-12] + uuid.uuid4().hex[:12]
    time = {
        "device_timezone": "America/Los_Angeles",
        "client_now_iso": "2026-03-16T09:12:33-07:00",
        "client_epoch_ms": 1773658353000,
    }
    weather = {
        "name": "get_weather",
        "description": "获取指定城市的天气信息",
        "parameters": {"type": "object", "properties": {}, "required": ["city"]},
    }
    for number, changes in enumerate([{}, {"tools": [weather]}, {"forwardedProps": {**CHAT, "client_time": time}}], 1):
        input = {**new_input(message, threadId=thread, runId=f"run-00{number}"), **changes}
        answer = person.post(input)
        assert answer.status == 202, answer.body
        accepted = answer.json
        assert set(accepted) == {"taskId", "threadId", "runId", "created"}
        assert (accepted["threadId"], accepted["runId"], accepted["created"]) == (thread, input["runId"], number == 1)
        again = person.post(input)
        assert (again.status, again.json) == (202, {**accepted, "created": False})
        assert person.events(thread, input["runId"])[-1]["event"] == "RUN_FINISHED"


def test_a_run_id_with_other_content_is_a_conflict(person):
    input = new_input("first")
    person.stream(input)
    answer = person.post({**input, "messages": [user("second")]})
    assert (answer.status, answer.json["detail"]) == (409, "runId already used")
    # In another thread it means another run.
    assert person.post({**input, "threadId": str(uuid.uuid4())}).json["created"] is True


def test_a_thread_of_another_agent_is_forbidden(person, other):
    input = new_input("mine")
    person.stream(input)
    for route in (STRICT, LENIENT):
        answer = other.post({**input, "runId": "another"}, route)
        assert (answer.status, answer.json["detail"]) == (403, "forbidden")
    assert other.cancel(input["threadId"], input["runId"]).status == 403
    assert other.call("GET", f"/api/v1/agent/history?threadId={input['threadId']}").status == 403


@pytest.mark.parametrize("row", [row for row in ROWS if row.detail == SIGNED], ids=names)
def test_a_picture_of_another_server_is_not_fetched(person, row):
    assert person.post(row.of(new_input())).json["detail"] == SIGNED
