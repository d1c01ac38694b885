"""Redis that is restarted, flushed and lost, and a gateway that takes its sessions along: who is online is told right."""

import asyncio
import contextlib
import signal
import time

from load import Load, sign_up
from place import GATEWAYS
from test_processes import sessions
from wire import Line, opened

LOST_SECONDS = 15
PRESENCE_SECONDS = 10
# Each question may be answered by another process: so many right answers in a row are taken for the truth.
IN_A_ROW = 8
AGENTS = 8


def test_redis_is_restarted_flushed_and_lost(place):
    async def test():
        async with Load(place, "Redis") as load:
            for words, harm in FAULTS.items():
                await load.goes_on()
                await harm(place)
                took = await presence_is_right(load)
                bells = load.found.counts["bells"]
                await load.goes_on()
                await more_bells(load, bells)
                load.did.append(f"{words}: presence right in {took} s")

    place.run(test())


async def restart(place):
    await asyncio.to_thread(place.redis.kill)
    await asyncio.to_thread(place.redis.start)


async def flush(place):
    assert await asyncio.to_thread(place.redis.say, "FLUSHALL") == b"+OK\r\n"


async def lose(place):
    await asyncio.to_thread(place.redis.kill)
    # Its absence is the fault.
    await asyncio.sleep(LOST_SECONDS)
    await asyncio.to_thread(place.redis.start)


FAULTS = {"restarted": restart, "flushed": flush, f"lost for {LOST_SECONDS} s": lose}


async def presence_is_right(load):
    """Everybody who is there is online and nobody else, whoever is asked; answers with the seconds until it was so."""
    began = time.monotonic()
    stranger = f"stranger.{load.server.issuer}"
    expected = {aid: True for aid in load.senders + load.receivers} | {stranger: False}
    await answers(load.people[load.senders[0]], expected, PRESENCE_SECONDS)
    return round(time.monotonic() - began, 1)


async def answers(caller, expected, seconds):
    deadline = time.monotonic() + seconds
    right = 0
    while right < IN_A_ROW:
        # The deadline is for the answer: a question asked in time may be answered a little later.
        asked = time.monotonic()
        online = (await caller.call("message.query_online", aids=list(expected)))["online"]
        right = right + 1 if online == expected else 0
        wrong = [aid for aid in expected if online[aid] != expected[aid]]
        assert not wrong or asked < deadline, f"not right within {seconds} s: {wrong}"
        await asyncio.sleep(0.05)


async def more_bells(load, before):
    async with asyncio.timeout(PRESENCE_SECONDS):
        while load.found.counts["bells"] <= before:
            await asyncio.sleep(0.05)


def test_a_killed_gateway_leaves_no_ghosts(place):
    async def test():
        async with contextlib.AsyncExitStack() as stack:
            lines = {}
            while not (lines and all([await asyncio.to_thread(sessions, place, name) for name in GATEWAYS])):
                for number in range(AGENTS):
                    aid = f"ghost{len(lines)}.{place.server.issuer}"
                    wire = await stack.enter_async_context(opened(place.server))
                    await wire.connect(await sign_up(place.server, aid), "phone")
                    lines[aid] = Line(wire)
            await answers(next(iter(lines.values())), {aid: True for aid in lines}, PRESENCE_SECONDS)

            gateway = place.chance.choice(GATEWAYS)
            there, before = await asyncio.to_thread(sessions, place, gateway), place.pid(gateway)
            place.hold(gateway)
            place.signal(gateway, signal.SIGKILL)
            killed = time.monotonic()
            gone = await cut_off(lines, there)
            left = next(line for aid, line in lines.items() if aid not in gone)
            await answers(left, {aid: aid not in gone for aid in lines}, PRESENCE_SECONDS)
            took = time.monotonic() - killed
            place.release(gateway)
            await place.restarted(gateway, before)
            await place.heal()
            await answers(left, {aid: aid not in gone for aid in lines}, PRESENCE_SECONDS)
            print(f"{gateway} killed: {there} of {len(lines)} sessions gone, no ghost after {took:.1f} s", flush=True)

    place.run(test())


async def cut_off(lines, count):
    """The agents whose connection ended."""
    async with asyncio.timeout(PRESENCE_SECONDS):
        while len(gone := {aid for aid, line in lines.items() if line.reader.done()}) < count:
            await asyncio.sleep(0.01)
    return gone
