"""Events that no later event makes up for: a single message for each reader, while its publisher is killed."""

import asyncio
import signal

import pytest
from load import Load

ROUNDS = 5
MOMENT = 0.03


class SingleMessages(Load):
    """Nobody writes by itself, and nobody acknowledges."""

    in_flight = 0
    readers = 8
    acknowledges = False

    async def one_for_each(self):
        messages = [self.compose(self.chance.choice(self.senders), aid) for aid in self.receivers]
        await asyncio.gather(*(self.send(self.devices[message.sender], message) for message in messages))
        self.results.add("acknowledged sends", len(messages))


def test_without_a_fault_nothing_fails(cluster):
    async def test():
        async with Load(cluster, "no fault") as load:
            await load.goes_on(500)
        assert not load.sentences and not load.ended and not load.closes, f"{load}"

    cluster.run(test())


@pytest.mark.parametrize("what", ["message", "redis"])
def test_an_event_is_delivered_though_its_publisher_is_killed(cluster, what):
    async def test():
        async with SingleMessages(cluster, f"one message for each while {what} is killed") as load:
            for _ in range(ROUNDS):
                sending = asyncio.create_task(load.one_for_each())
                # Somewhere between the first call and the last event.
                await asyncio.sleep(cluster.chance.uniform(0, MOMENT))
                await (kill_message if what == "message" else kill_redis)(cluster)
                await sending
                await cluster.heal()
                await load.everybody_is_told()
            load.did.append(f"{ROUNDS} times")

    cluster.run(test())


async def kill_message(cluster):
    before = {name: cluster.pid(name) for name in ("message1", "message2")}
    for name in before:
        cluster.signal(name, signal.SIGKILL)
    for name, pid in before.items():
        await cluster.restarted(name, pid)


async def kill_redis(cluster):
    await asyncio.to_thread(cluster.redis.kill)
    await asyncio.to_thread(cluster.redis.start)
