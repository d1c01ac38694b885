"""The published clients of npm, of 1.0 and of before, at both routes: no client drops anything or has something to complain about."""

import json
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from api import BASE, CHAT, LENIENT, STREAM, STRICT, ended, new_input
from front_end import NEW, FrontEnd, checked

pytestmark = pytest.mark.npm

ROUTES = pytest.mark.parametrize("route", [STRICT, LENIENT])
# What an application has to say at the strict route, and need not say at the other.
MODE = {STRICT: {"forwardedProps": CHAT}, LENIENT: {}}


@pytest.fixture
def talk(front_end, person):
    """Opens a conversation at a route; the application says what the route asks for."""

    def open_at(route, who=person, thread=None):
        return front_end.open(who.url(route), who.token, thread)

    return open_at


@pytest.mark.smoke
@ROUTES
def test_a_text_is_answered_by_a_message(front_end, person, talk, route):
    conversation = talk(route)
    seen = checked(conversation.say("Hello", **MODE[route]), front_end)

    assert seen.requestHeaders["Accept"] == STREAM
    assert seen.types[0] == "RUN_STARTED" and seen.types[-1] == "RUN_FINISHED"
    assert [event["stepName"] for event in seen.of("STEP_STARTED")] == ["router", "worker"]
    assert [event["stepName"] for event in seen.of("STEP_FINISHED")] == ["router", "worker"]
    assert [message["content"] for message in seen.replies] == ["You said: Hello"]
    assert seen.text == "You said: Hello"
    assert person.replies(conversation.thread) == ["You said: Hello"]
    if front_end.version == NEW:
        assert front_end.flaws(inputs=[seen.input]) == [], "what the client sends is what its schemas describe"


def test_a_conversation_at_the_strict_route_goes_on_after_the_client_forgets_its_messages(front_end, person, talk):
    conversation = talk(STRICT)
    for number, text in enumerate(["first", "second", "third"], 1):
        seen = checked(conversation.say(text, reset=True, **MODE[STRICT]), front_end)
        assert len(seen.input["messages"]) == 1
        assert seen.text == f"You said: {text}"
        assert len(person.history(conversation.thread)["messages"]) == 2 * number
    messages = person.history(conversation.thread)["messages"]
    assert [message["seq"] for message in messages] == [1, 2, 3, 4, 5, 6]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 3
    assert [message["content"] for message in messages[::2]] == ["first", "second", "third"]


def test_a_client_that_sends_everything_again_is_refused_at_the_strict_route(front_end, talk):
    conversation = talk(STRICT)
    checked(conversation.say("first", **MODE[STRICT]), front_end)
    refused(conversation.say("second", **MODE[STRICT]), "RunAgentInput.messages must contain exactly one user message")


def test_a_client_that_sends_everything_again_is_understood_at_the_other(front_end, person, talk):
    conversation = talk(LENIENT)
    for number, text in enumerate(["first", "second", "third"], 1):
        seen = checked(conversation.say(text), front_end)
        assert len(seen.input["messages"]) == 2 * number - 1
        assert seen.text == f"You said: {text}", "the last message is the turn"
    contents = [message["content"] for message in person.history(conversation.thread)["messages"]]
    assert contents == ["first", "You said: first", "second", "You said: second", "third", "You said: third"]


@ROUTES
def test_a_tool_call_is_shown_with_its_arguments_and_its_result(front_end, talk, route):
    seen = checked(talk(route).say("What time is it? /tool", **MODE[route]), front_end)
    [start] = seen.of("TOOL_CALL_START")
    [result] = seen.of("TOOL_CALL_RESULT")
    assert start["toolCallName"] == "clock"
    assert start["toolCallId"] == result["toolCallId"]
    assert arguments(seen, start) == {"timezone": "UTC"}
    assert isinstance(result["content"], str)
    # What the application shows: the call, its result, the reply.
    [call] = [call for message in seen.newMessages for call in message.get("toolCalls", [])]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("clock", {"timezone": "UTC"})
    assert [message["content"] for message in seen.newMessages if message["role"] == "tool"] == [result["content"]]
    assert [message["content"] for message in seen.replies] == ["You said: What time is it? /tool"]


def test_an_event_of_a_calendar_is_at_the_time_of_the_device_then_of_the_profile_then_of_utc(front_end, person, talk):
    conversation = talk(STRICT)

    def zone_of(**more):
        seen = checked(conversation.say("tomorrow at nine /calendar", reset=True, forwardedProps={**CHAT, **more}), front_end)
        [start] = seen.of("TOOL_CALL_START")
        assert start["toolCallName"] == "calendar_write"
        [result] = seen.of("TOOL_CALL_RESULT")
        zone = arguments(seen, start)["event_timezone"]
        assert result["content"] == f"written in {zone}"
        return zone

    assert zone_of() == "UTC"
    assert zone_of(client_time=client_time("America/Los_Angeles")) == "America/Los_Angeles"
    assert person.call("PUT", f"{BASE}/profile", {"timezone": "Asia/Kolkata"}).status == 200
    assert zone_of() == "Asia/Kolkata"
    assert zone_of(client_time=client_time("America/Los_Angeles")) == "America/Los_Angeles"


def client_time(zone):
    now = datetime.now(ZoneInfo(zone))
    return {
        "device_timezone": zone,
        "client_now_iso": now.isoformat(timespec="seconds"),
        "client_epoch_ms": int(now.timestamp() * 1000),
    }


@ROUTES
def test_a_failure_ends_the_run_with_its_kind(front_end, person, talk, route):
    conversation = talk(route)
    seen = checked(conversation.say("please /fail", **MODE[route]), front_end)
    assert seen.last["type"] == "RUN_ERROR"
    assert (seen.last["code"], seen.last["message"]) == ("backend-failed", "asked to fail")
    assert seen.newMessages == [], "nothing was said"
    # The thread goes on.
    seen = checked(conversation.say("and now?", reset=True, **MODE[route]), front_end)
    assert seen.text == "You said: and now?"
    assert person.replies(conversation.thread) == ["You said: and now?"]


@pytest.mark.smoke
@ROUTES
def test_a_run_that_is_cancelled_ends_in_the_words_of_its_client(front_end, person, talk, route):
    conversation = talk(route)
    run = conversation.begin("count /slow", **MODE[route]).until("TEXT_MESSAGE_CONTENT")
    answer = person.cancel(conversation.thread, run.id)
    assert (answer.status, answer.json) == (202, {"threadId": conversation.thread, "runId": run.id, "accepted": True})
    seen = checked(run.end(), front_end)
    assert "word50" not in seen.text
    if front_end.version == NEW:
        assert (seen.last["type"], seen.last["outcome"]) == ("RUN_FINISHED", {"type": "cancelled"})
    else:
        assert (seen.last["type"], seen.last["code"]) == ("RUN_ERROR", "RUN_CANCELED")
        assert seen.last["message"] == "run canceled by user"
    # Once more changes nothing, and the thread goes on.
    assert person.cancel(conversation.thread, run.id).status == 202
    assert checked(conversation.say("next", reset=True, **MODE[route]), front_end).text == "You said: next"


def test_a_run_that_waits_is_cancelled_before_it_begins(front_end, person, talk):
    conversation = talk(STRICT)
    first = conversation.begin("count /slow", **MODE[STRICT]).until("RUN_STARTED")
    waiting = new_input("never said", threadId=conversation.thread)
    assert person.post(waiting).status == 202
    assert person.cancel(conversation.thread, waiting["runId"]).status == 202
    assert person.cancel(conversation.thread, first.id).status == 202
    checked(first.end(), front_end)
    last = person.events(conversation.thread, waiting["runId"])[-1]["data"]
    # Its input had no protocolVersion.
    assert (last["type"], last.get("code")) == ("RUN_ERROR", "RUN_CANCELED")
    assert not [text for text in person.replies(conversation.thread) if "never said" in text]


def test_a_client_that_leaves_cancels_nothing(front_end, person, talk):
    conversation = talk(STRICT)
    run = conversation.begin("count /slow", **MODE[STRICT]).until("TEXT_MESSAGE_CONTENT")
    # The client makes an end of its own, and says nothing of it to the server.
    assert run.abort().end().said == []
    [reply] = ended(person, conversation.thread, 1)
    assert reply.endswith("You said: count /slow")
    assert "word50" in reply
    assert person.events(conversation.thread, run.id)[-1]["event"] == "RUN_FINISHED"


@ROUTES
def test_a_document_for_the_screen_comes_as_an_event_and_with_the_message(front_end, person, talk, route):
    conversation = talk(route)
    seen = checked(conversation.say("show me /ui", **MODE[route]), front_end)
    [custom] = seen.of("CUSTOM")
    document = custom["value"]
    assert custom["name"] == "ui_schema"
    assert (document["version"], document["status"], document["theme"]) == ("2.0", "success", "default")
    assert (document["root"]["type"], document["root"]["appearance"]) == ("stack", "card")
    children = [
        (child["type"], child.get("role") or child.get("style") or child.get("status")) for child in document["root"]["children"]
    ]
    assert children == [("text", "title"), ("badge", "success"), ("text", "body"), ("button", "primary")]
    [end] = seen.of("TEXT_MESSAGE_END")
    assert end["metadata"]["agentrun"]["ui_schema"] == document
    if front_end.version == NEW:
        [reply] = seen.replies
        assert reply["metadata"]["agentrun"]["ui_schema"] == document
    assert person.history(conversation.thread)["messages"][-1]["ui_schema"] == document


def test_a_run_that_is_sent_again_is_shown_again_from_its_start(front_end, person, talk):
    conversation = talk(STRICT)
    message = {"id": "m1", "role": "user", "content": "only once"}
    how = {"messages": [message], "run": "the same run", **MODE[STRICT]}
    first = checked(conversation.begin(**how).end(), front_end)
    again = checked(conversation.begin(**how).end(), front_end)
    assert again.frames == first.frames
    assert len(person.history(conversation.thread)["messages"]) == 2


def test_a_run_id_means_one_run(front_end, person, talk):
    conversation = talk(STRICT)
    checked(conversation.say("first", run="the same run", **MODE[STRICT]), front_end)
    refused(conversation.say("second", run="the same run", reset=True, **MODE[STRICT]), "runId already used", status=409)
    assert person.replies(conversation.thread) == ["You said: first"]


@ROUTES
def test_a_thread_belongs_to_its_agent(front_end, person, other, talk, route):
    conversation = talk(route)
    checked(conversation.say("mine", **MODE[route]), front_end)
    seen = talk(route, other, conversation.thread).say("mine, too", **MODE[route])
    refused(seen, "forbidden", status=403)
    assert person.replies(conversation.thread) == ["You said: mine"]


def test_two_runs_of_one_thread_come_one_after_the_other(front_end, person, talk):
    conversation = talk(STRICT)
    first = conversation.begin("one", reset=True, **MODE[STRICT])
    second = talk(STRICT, thread=conversation.thread).begin("two", **MODE[STRICT])
    seen = [checked(run.end(), front_end) for run in (first, second)]
    assert sorted(run.text for run in seen) == ["You said: one", "You said: two"]
    seen.sort(key=lambda run: numbers(run.frames[0]))
    assert numbers(seen[0].frames[-1]) < numbers(seen[1].frames[0]), "the second begins when the first has ended"
    assert len(person.replies(conversation.thread)) == 2


def test_a_token_that_is_none_is_an_error_of_the_application(front_end, person):
    seen = front_end.open(person.url(STRICT), "nobody's").say("Hello", **MODE[STRICT])
    refused(seen, "Not authenticated", status=401)


def test_a_client_verifies_the_certificate_of_the_server(server, person):
    url = f"https://{server.gateway}:{server.port}{LENIENT}"
    for roots, works in (({"NODE_EXTRA_CA_CERTS": str(server.root)}, True), ({}, False)):
        front_end = FrontEnd(NEW, roots)
        try:
            front_end.ask("resolve", host=server.gateway, address=server.address)
            seen = front_end.open(url, person.token).say("Hello")
            if works:
                assert checked(seen, front_end).text == "You said: Hello"
            else:
                assert seen.error["message"] == "fetch failed"
        finally:
            front_end.end()


def arguments(seen, start):
    deltas = [event["delta"] for event in seen.of("TOOL_CALL_ARGS") if event["toolCallId"] == start["toolCallId"]]
    return json.loads("".join(deltas))


def numbers(frame):
    return tuple(map(int, frame["id"].split("-")))


def refused(seen, detail, status=422):
    """The application gets the sentence of the server, as every client of this generation hands it on."""
    assert seen.error is not None, seen.events
    assert (seen.error["status"], seen.error["payload"]["detail"]) == (status, detail), seen.error
    assert seen.error["message"].startswith(f"HTTP {status}: ")
    assert detail in seen.error["message"]
    assert set(seen.error["payload"]) >= {"detail", "code", "traceId"}
    assert seen.events == []
    # It says so itself, and nothing else.
    assert [line["text"].split(":")[0] for line in seen.said] == ["Agent execution failed"], seen.said
