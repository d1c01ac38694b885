"""Redis that is restarted, flushed and lost, and a gateway that is killed: who is online is answered right."""

import asyncio
import contextlib
import signal
import time

from cluster import GATEWAYS
from connection import Session, opened
from load import Load, sign_up
from test_processes import sessions

LOST_SECONDS = 15
PRESENCE_SECONDS = 10
# Each question may be answered by another process: so many right answers in a row are taken for the truth.
IN_A_ROW = 8
AGENTS = 8


def test_redis_is_restarted_flushed_and_lost(cluster):
    async def test():
        async with Load(cluster, "Redis") as load:
            for words, fault in FAULTS.items():
                await load.goes_on()
                await fault(cluster)
                took = await presence_is_right(load)
                events = load.results.counts["events"]
                await load.goes_on()
                await more_events(load, events)
                load.did.append(f"{words}: presence right in {took} s")

    cluster.run(test())


async def restart(cluster):
    await asyncio.to_thread(cluster.redis.kill)
    await asyncio.to_thread(cluster.redis.start)


async def flush(cluster):
    assert await asyncio.to_thread(cluster.redis.say, "FLUSHALL") == b"+OK\r\n"


async def lose(cluster):
    await asyncio.to_thread(cluster.redis.kill)
    # Its absence is the fault.
    await asyncio.sleep(LOST_SECONDS)
    await asyncio.to_thread(cluster.redis.start)


FAULTS = {"restarted": restart, "flushed": flush, f"lost for {LOST_SECONDS} s": lose}


async def presence_is_right(load):
    """Everybody who is there is online and nobody else, whoever is asked; answers with the seconds until it was so."""
    began = time.monotonic()
    unknown = f"unknown.{load.server.issuer}"
    expected = {aid: True for aid in load.senders + load.receivers} | {unknown: False}
    await answers(load.devices[load.senders[0]], expected, PRESENCE_SECONDS)
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


async def more_events(load, before):
    async with asyncio.timeout(PRESENCE_SECONDS):
        while load.results.counts["events"] <= before:
            await asyncio.sleep(0.05)


def test_sessions_of_a_killed_gateway_are_offline(cluster):
    async def test():
        async with contextlib.AsyncExitStack() as stack:
            agents = {}
            while not (agents and all([await asyncio.to_thread(sessions, cluster, name) for name in GATEWAYS])):
                for number in range(AGENTS):
                    aid = f"agent{len(agents)}.{cluster.server.issuer}"
                    connection = await stack.enter_async_context(opened(cluster.server))
                    await connection.connect(await sign_up(cluster.server, aid), "phone")
                    agents[aid] = Session(connection)
            await answers(next(iter(agents.values())), {aid: True for aid in agents}, PRESENCE_SECONDS)

            gateway = cluster.chance.choice(GATEWAYS)
            there, before = await asyncio.to_thread(sessions, cluster, gateway), cluster.pid(gateway)
            cluster.hold(gateway)
            cluster.signal(gateway, signal.SIGKILL)
            killed = time.monotonic()
            gone = await cut_off(agents, there)
            left = next(session for aid, session in agents.items() if aid not in gone)
            await answers(left, {aid: aid not in gone for aid in agents}, PRESENCE_SECONDS)
            took = time.monotonic() - killed
            cluster.release(gateway)
            await cluster.restarted(gateway, before)
            await cluster.heal()
            await answers(left, {aid: aid not in gone for aid in agents}, PRESENCE_SECONDS)
            print(f"{gateway} killed: {there} of {len(agents)} sessions gone, all offline after {took:.1f} s", flush=True)

    cluster.run(test())


async def cut_off(agents, count):
    """The agents whose connection ended."""
    async with asyncio.timeout(PRESENCE_SECONDS):
        while len(gone := {aid for aid, session in agents.items() if session.reader.done()}) < count:
            await asyncio.sleep(0.01)
    return gone
