"""Pictures: uploaded, named by a signed URL in the input, seen by the back end, shown in the history."""

import http.client
import zlib
from urllib.parse import urlsplit

import pytest
from api import CHAT, STRICT, new_input, user
from front_end import NEW, checked
from refusals import SIGNED


def chunk(name, data):
    return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")


# One black pixel.
PNG = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", b"\0\0\0\1\0\0\0\1\x08\0\0\0\0")
    + chunk(b"IDAT", zlib.compress(b"\0\0"))
    + chunk(b"IEND", b"")
)


@pytest.fixture
def uploaded(person):
    answer = person.upload(PNG)
    assert answer.status == 200, answer.body
    assert set(answer.json) >= {"url", "mimeType", "bucket", "path", "expiresAt"}
    assert (answer.json["mimeType"], answer.json["bucket"]) == ("image/png", "agent-inputs")
    return answer.json


def fetched(person, url):
    """As the <img> of a page does: without a token."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(person.server.address, person.server.plain_port, timeout=60)
    connection.request("GET", f"{parts.path}?{parts.query}", headers={"Host": person.server.gateway})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


@pytest.mark.npm
def test_the_back_end_sees_a_picture_that_a_client_sends(front_end, person, uploaded):
    conversation = front_end.open(person.url(STRICT), person.token)
    picture = {"type": "image", "source": {"type": "url", "value": uploaded["url"], "mimeType": "image/png"}}
    if front_end.version != NEW:
        picture = {"type": "binary", "mimeType": "image/png", "url": uploaded["url"]}
    content = [{"type": "text", "text": "what is this? /image"}, picture]
    seen = checked(conversation.begin(messages=[user(content)], forwardedProps=CHAT).end(), front_end)
    assert seen.text == f"1 image: image/png, {len(PNG)} bytes\nYou said: what is this? /image"

    [attachment] = person.history(conversation.thread)["messages"][0]["attachments"]
    assert attachment["mimeType"] == "image/png"
    assert fetched(person, attachment["url"])[2] == PNG


def test_a_picture_alone_is_a_message(person, uploaded):
    frames = person.stream(new_input([{"type": "binary", "mimeType": "image/png", "url": uploaded["url"]}]))
    assert frames[-1]["event"] == "RUN_FINISHED"


def test_three_pictures_are_not_too_many(person):
    pictures = [{"type": "binary", "mimeType": "image/png", "url": person.upload(PNG).json["url"]} for _ in range(3)]
    frames = person.stream(new_input([{"type": "text", "text": "/image"}, *pictures]))
    assert "".join(frame["data"].get("delta", "") for frame in frames).startswith("3 images: ")


def test_a_url_is_good_for_its_owner_and_as_it_was_signed(person, other, uploaded):
    def sent(who, url):
        answer = who.post(new_input([{"type": "text", "text": "look"}, {"type": "binary", "mimeType": "image/png", "url": url}]))
        return answer.status, answer.json.get("detail")

    assert sent(other, uploaded["url"]) == (422, SIGNED)
    assert sent(person, uploaded["url"][:-1] + ("0" if uploaded["url"][-1] != "0" else "1")) == (422, SIGNED)
    assert sent(person, uploaded["url"].replace("expires=", "expires=9")) == (422, SIGNED)
    assert sent(person, uploaded["url"])[0] == 202


def test_a_page_shows_a_picture_without_a_token_and_runs_nothing_of_it(person, uploaded):
    status, headers, body = fetched(person, uploaded["url"])
    assert (status, body, headers["Content-Type"]) == (200, PNG, "image/png")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == "sandbox"
    assert "private" in headers["Cache-Control"]
    changed = uploaded["url"][:-1] + ("0" if uploaded["url"][-1] != "0" else "1")
    assert fetched(person, changed)[0] == 403


@pytest.mark.parametrize(
    "data, mime_type",
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        (b"GIF89a", "image/png"),
        (b"hello", "text/plain"),
        (PNG, "image/gif"),
    ],
    ids=["a program", "another picture", "a text", "a wrong name"],
)
def test_what_is_no_picture_is_not_taken(person, data, mime_type):
    answer = person.upload(data, mime_type)
    assert answer.status == 422, answer.body
    assert set(answer.json) >= {"detail", "code", "traceId"}
