"""Streams that are read again: whoever was cut off anywhere gets the rest, and the same frames as everybody else."""

import uuid

import pytest
from api import CHAT, STREAM, STRICT, new_input, queued
from front_end import checked


@pytest.mark.smoke
def test_a_reader_that_is_cut_off_anywhere_gets_the_rest(person):
    input = new_input("everything /tool /calendar /ui")
    frames = person.stream(input)
    thread, run = input["threadId"], input["runId"]
    assert person.events(thread, run) == frames, "whoever asks later sees what the first one saw"
    for seen, frame in enumerate(frames, 1):
        assert person.events(thread, run, last=frame["id"]) == frames[seen:]
    middle = len(frames) // 2
    rest = person.events(thread, run, query=f"Last-Event-ID={frames[middle]['id']}")
    assert rest == frames[middle + 1 :], "as an application that cannot set headers asks"


def test_several_frames_of_one_event_have_several_ids(person):
    frames = person.stream(new_input("a document /ui"))
    numbers = [tuple(map(int, frame["id"].split("-"))) for frame in frames]
    assert numbers == sorted(set(numbers))
    assert any(number > 0 for _, number in numbers), "the end of a turn is more than one frame"


@pytest.mark.parametrize("last", ["nonsense", "5", "5-", "-1-0", "5-0-0", ""])
def test_an_id_that_is_none_reads_from_the_start(person, last):
    input = new_input("Hello")
    frames = person.stream(input)
    assert person.events(input["threadId"], input["runId"], last=last) == frames


def test_the_stream_of_a_thread_has_the_active_run_from_its_start_and_every_later_one(person):
    first, second = new_input("count /slow"), new_input("then this")
    second["threadId"] = first["threadId"]
    with person.listen(STRICT, first) as poster:
        poster.until("TEXT_MESSAGE_CONTENT")
        with person.listen(f"{STRICT}/{first['threadId']}/events") as reader:
            assert person.post(second).status == 202
            reader.until("RUN_FINISHED", second["runId"])
    heard = reader.frames
    assert heard == person.events(first["threadId"], first["runId"]) + person.events(first["threadId"], second["runId"])


def test_the_stream_of_a_thread_ends_when_nothing_has_happened_for_a_while(person):
    input = new_input("Hello")
    person.stream(input)
    path = f"{STRICT}/{input['threadId']}/events?idle_limit="
    assert person.call("GET", f"{path}1", accept=STREAM).status == 200
    for wrong in ("0", "3601", "soon"):
        assert person.call("GET", path + wrong, accept=STREAM).status == 422


def test_the_stream_of_a_run_that_waits_begins_when_the_run_does(person):
    first, second = new_input("count /slow"), new_input("then this")
    second["threadId"] = first["threadId"]
    assert person.post(first).status == person.post(second).status == 202
    frames = person.events(second["threadId"], second["runId"])
    assert frames[0]["data"] == {"type": "RUN_STARTED", "threadId": second["threadId"], "runId": second["runId"]}
    assert frames[-1]["event"] == "RUN_FINISHED"


@pytest.mark.slow
def test_a_stream_with_nothing_to_say_is_kept_alive_by_comments(person):
    thread = queued(person, 2)
    with person.listen(STRICT, new_input("at last", threadId=thread)) as reader:
        reader.until("RUN_FINISHED")
    assert ": keep-alive" in reader.text
    assert reader.frames[0]["event"] == "RUN_STARTED"


@pytest.mark.npm
@pytest.mark.slow
def test_clients_do_not_mind_comments(front_end, person):
    seen = front_end.open(person.url(STRICT), person.token, queued(person, 2)).say("at last", forwardedProps=CHAT)
    assert ": keep-alive" in seen.wire
    assert checked(seen, front_end).text == "You said: at last"


@pytest.mark.npm
def test_an_event_source_that_loses_its_connection_joins_the_frames(front_ends, person):
    client = front_ends("1.0.0")
    input = new_input("count /slow")
    thread, run = input["threadId"], input["runId"]
    assert person.post(input).status == 202
    # In the first frame, between frames, and in the middle of one.
    heard = client.follow(person.url(f"{STRICT}/{thread}/events?runId={run}"), person.token, cuts=[20, 700, 1500])
    whole = person.events(thread, run)
    assert heard["frames"] == whole
    assert heard["opened"] == 4
    assert heard["requests"][0] is None
    ids = [frame["id"] for frame in whole]
    later = [ids.index(last) for last in heard["requests"] if last is not None]
    assert later and later == sorted(later), "each time it asks for what is behind the last that it has"
    assert whole[-1]["event"] == "RUN_FINISHED"


@pytest.mark.npm
def test_an_event_source_may_come_before_the_run_is_over_and_again_after_it(front_ends, person):
    client = front_ends("1.0.0")
    input = new_input("Hello")
    frames = person.stream(input)
    url = person.url(f"{STRICT}/{input['threadId']}/events?runId={input['runId']}")
    assert client.follow(url, person.token)["frames"] == frames
    assert client.follow(url, person.token, cuts=[300])["frames"] == frames


def test_streams_of_others_and_of_nothing_are_refused(person, other):
    input = new_input("mine")
    person.stream(input)
    thread, run = input["threadId"], input["runId"]
    for who, path, status in [
        (other, f"{STRICT}/{thread}/events?runId={run}", 403),
        (other, f"{STRICT}/{thread}/events", 403),
        (person, f"{STRICT}/{thread}/events?runId=another", 404),
        (person, f"{STRICT}/{uuid.uuid4()}/events", 404),
    ]:
        answer = who.call("GET", path, accept=STREAM)
        assert answer.status == status, (path, answer.body)
        assert set(answer.json) >= {"detail", "code", "traceId"}
