"""Questions of the back end: an interrupt to clients of 1.0, which answer it with `resume`; the end of a run to those before."""

import uuid

import pytest
from api import CHAT, LENIENT, SECONDS, STRICT, ended, new_input, user
from aund import eventually
from front_end import checked

pytestmark = pytest.mark.npm

ANSWERS = [
    pytest.param({"status": "resolved", "payload": {"decision": "accept"}}, "approved", id="a decision to accept"),
    pytest.param({"status": "resolved", "payload": {"decision": "decline"}}, "declined", id="a decision to decline"),
    pytest.param({"status": "resolved", "payload": {"approved": True}}, "approved", id="approved"),
    pytest.param({"status": "resolved", "payload": {"approved": False}}, "declined", id="not approved"),
]


def asked(client, person, route=STRICT, text="May you? /ask"):
    """A conversation whose back end has asked."""
    conversation = client.open(person.url(route), person.token)
    seen = checked(conversation.say(text, forwardedProps=CHAT), client)
    assert seen.last["type"] == "RUN_FINISHED"
    assert (seen.last["outcome"]["type"], seen.text) == ("interrupt", "")
    [interrupt] = seen.last["outcome"]["interrupts"]
    assert interrupt["reason"] == "example"
    assert person.replies(conversation.thread) == [], "there is no answer yet"
    return conversation, seen, interrupt


@pytest.mark.smoke
@pytest.mark.parametrize("route", [STRICT, LENIENT])
@pytest.mark.parametrize("answer, said", ANSWERS)
def test_a_question_is_answered_by_resume(new_client, person, route, answer, said):
    conversation, first, interrupt = asked(new_client, person, route)
    assert [pending["id"] for pending in first.pendingInterrupts] == [interrupt["id"]]

    resume = [{"interruptId": interrupt["id"], **answer}]
    # The client sends its messages again; they have one that the thread knows.
    seen = checked(conversation.begin(resume=resume, forwardedProps=CHAT).end(), new_client)
    assert [message["role"] for message in seen.input["messages"]] == ["user"]
    assert seen.input["resume"] == resume
    assert seen.last["type"] == "RUN_FINISHED"
    assert seen.last.get("outcome", {"type": "success"}) == {"type": "success"}
    assert seen.text == f"{said}\nYou said: May you? /ask"
    assert seen.pendingInterrupts == []
    assert person.replies(conversation.thread) == [seen.text]
    assert len(person.history(conversation.thread)["messages"]) == 2, "an answer is no message"


def test_an_answer_needs_no_message(new_client, person):
    conversation, _, interrupt = asked(new_client, person)
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
    seen = checked(conversation.begin(reset=True, resume=resume, forwardedProps=CHAT).end(), new_client)
    assert seen.input["messages"] == []
    assert seen.text.startswith("approved\n")


@pytest.mark.parametrize("route", [STRICT, LENIENT])
def test_a_question_that_is_cancelled_ends_its_turn(new_client, person, route):
    conversation, _, interrupt = asked(new_client, person, route)
    resume = [{"interruptId": interrupt["id"], "status": "cancelled"}]
    seen = checked(conversation.begin(resume=resume, forwardedProps=CHAT).end(), new_client)
    assert seen.last["outcome"] == {"type": "cancelled"}
    assert person.replies(conversation.thread) == []


def test_what_comes_after_the_answer_is_a_run_of_its_own(new_client, person):
    """Steps that were open at the question, tools and documents: a client sees two whole runs, each with its frames."""
    conversation, first, interrupt = asked(new_client, person, text="May you? /ask /tool /ui")
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
    seen = checked(conversation.begin(resume=resume, forwardedProps=CHAT).end(), new_client)
    assert "TOOL_CALL_START" not in first.types
    assert [event["toolCallName"] for event in seen.of("TOOL_CALL_START")] == ["clock"]
    assert len(seen.of("CUSTOM")) == 1
    thread = conversation.thread
    assert person.events(thread, first.input["runId"]) == first.frames
    assert person.events(thread, seen.input["runId"]) == seen.frames
    assert numbers(first.frames[-1]) < numbers(seen.frames[0])


def test_an_answer_that_is_sent_again_is_shown_again(new_client, person):
    conversation, _, interrupt = asked(new_client, person)
    input = resuming(conversation.thread, [{"interruptId": interrupt["id"], "status": "cancelled"}])
    assert person.stream(input) == person.stream(input)
    changed = {**input, "resume": [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]}
    answer = person.post(changed)
    assert (answer.status, answer.json["detail"]) == (409, "runId already used")


def test_an_answer_names_every_open_question_once_and_no_other(new_client, person):
    conversation, _, interrupt = asked(new_client, person)
    right = {"interruptId": interrupt["id"], "status": "cancelled"}
    every, unknown = "resume must answer every open interrupt", "unknown interruptId"
    for resume, detail in [
        ([right, right], every),
        ([{**right, "interruptId": "another"}], unknown),
        ([right, {**right, "interruptId": "another"}], unknown),
        ([{**right, "status": "postponed"}], "invalid RunAgentInput"),
    ]:
        for route in (STRICT, LENIENT):
            answer = person.post(resuming(conversation.thread, resume), route)
            assert (answer.status, answer.json["detail"]) == (422, detail), resume
    unknown_message = {**resuming(conversation.thread, [right]), "messages": [user("something new")]}
    answer = person.post(unknown_message)
    assert (answer.status, answer.json["detail"]) == (422, "RunAgentInput.messages must contain exactly one user message")
    # None of these has answered it.
    agreed = {**right, "status": "resolved", "payload": {"approved": True}}
    [end] = person.stream(resuming(conversation.thread, [agreed]))[-1:]
    assert end["event"] == "RUN_FINISHED"
    assert ended(person, conversation.thread, 1) == ["approved\nYou said: May you? /ask"]
    # And now nothing is open.
    answer = person.post(resuming(conversation.thread, [right]))
    assert (answer.status, answer.json["detail"]) == (422, unknown)


@pytest.mark.parametrize("route", [STRICT, LENIENT])
def test_a_client_before_1_0_sees_a_run_that_has_ended_and_its_next_turn_answers_cancel(old_client, person, route):
    conversation, first, _ = asked(old_client, person, route)
    assert first.newMessages == []
    seen = checked(conversation.say("something else", reset=True, forwardedProps=CHAT), old_client)
    assert seen.last["type"] == "RUN_FINISHED"
    assert seen.text == "You said: something else"
    # The turn that asked was cancelled before the next one began.
    assert person.replies(conversation.thread) == ["You said: something else"]
    assert person.events(conversation.thread, first.input["runId"])[-1]["event"] == "RUN_ERROR"
    roles = [message["role"] for message in person.history(conversation.thread)["messages"]]
    assert sorted(roles) == ["assistant", "user", "user"]


def test_a_client_of_1_0_that_says_something_else_answers_cancel(new_client, person):
    conversation, _, _ = asked(new_client, person)
    # Its own rule: it sends nothing while a question waits. An application that was loaded again has forgotten it.
    again = new_client.open(person.url(STRICT), person.token, conversation.thread)
    seen = checked(again.say("something else", forwardedProps=CHAT), new_client)
    assert seen.text == "You said: something else"
    assert person.replies(conversation.thread) == ["You said: something else"]


def test_a_question_of_a_run_that_is_cancelled_is_closed(new_client, person):
    conversation, first, interrupt = asked(new_client, person)
    assert person.cancel(conversation.thread, first.input["runId"]).status == 202
    resume = resuming(conversation.thread, [{"interruptId": interrupt["id"], "status": "cancelled"}])

    def is_closed():
        answer = person.post({**resume, "runId": str(uuid.uuid4())})
        return answer.status == 422 and answer.json["detail"] == "unknown interruptId"

    eventually("the question is closed", is_closed, SECONDS)
    again = new_client.open(person.url(STRICT), person.token, conversation.thread)
    assert checked(again.say("next", forwardedProps=CHAT), new_client).text == "You said: next"


def test_a_question_may_be_answered_where_runs_are_looked_after(front_end, person):
    """By the route of the run behind the thread, as the operator or another application does it."""
    conversation, first, _ = asked(front_end, person)
    # The same input again, as JSON, tells the command.
    command = person.post(first.input).json["taskId"]
    run, question = next(
        (run["runId"], approval)
        for run in person.call("GET", "/api/v1/runs?open=true&limit=200").json["data"]["runs"]
        for approval in person.call("GET", f"/api/v1/runs/{run['runId']}/approvals").json["data"]["approvals"]
        if approval["commandId"] == command
    )
    answered = person.call("POST", f"/api/v1/runs/{run}/approvals/{question['approvalId']}", {"decision": "accept"})
    assert answered.status == 200, answered.body
    assert ended(person, conversation.thread, 1) == ["approved\nYou said: May you? /ask"]
    # Whoever reads the thread from its start sees legal runs, to the end of the answer.
    events = [frame["data"] for frame in person.events(conversation.thread, last="0-0", query="idle_limit=1")]
    assert front_end.flaws(events=events) == []
    assert "".join(event.get("delta", "") for event in events if event["type"] == "TEXT_MESSAGE_CONTENT").startswith("approved")
    assert events[-1]["type"] == "RUN_FINISHED"


def resuming(thread, resume):
    """The input of an answer, which needs no message."""
    return {**new_input(threadId=thread), "messages": [], "resume": resume, "protocolVersion": "1.0"}


def numbers(frame):
    return tuple(map(int, frame["id"].split("-")))
