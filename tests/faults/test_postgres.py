"""PostgreSQL that is restarted, killed, and out of disk."""

import asyncio

import pytest
from cluster import until
from load import Load

REFUSED = 100


def test_postgres_is_restarted(cluster):
    async def test():
        async with Load(cluster, "PostgreSQL restarted") as load:
            for words, end in (("fast shutdown", cluster.postgres.stop), ("kill -9", cluster.postgres.kill)):
                await load.goes_on()
                await asyncio.to_thread(end)
                await until("somebody noticed", lambda: load.ended["calls told to retry"])
                await asyncio.to_thread(cluster.postgres.start)
                healed = await cluster.heal()
                await load.goes_on()
                load.did.append(f"{words}, healed in {healed} s")
                load.ended.clear()

    cluster.run(test())


def test_the_disk_of_postgres_is_full(cluster):
    if not cluster.postgres.has_disk:
        pytest.skip("PostgreSQL has no disk of its own to fill: this takes root and the right to mount")

    async def test():
        async with Load(cluster, "PostgreSQL's disk full") as load:
            await load.goes_on()
            try:
                filled = await asyncio.to_thread(cluster.postgres.fill)
                await until("many noticed", lambda: load.ended["calls told to retry"] >= REFUSED)
            finally:
                await asyncio.to_thread(cluster.postgres.free)
            load.did.append(f"{filled >> 20} MB taken and given back")
            # It gives up when even its log cannot be written; then whoever made space starts it again.
            if not cluster.postgres.runs():
                await asyncio.to_thread(cluster.postgres.start)
                load.did.append("it had stopped and was started")
            load.did.append(f"healed in {await cluster.heal()} s")
            await load.goes_on()

    cluster.run(test())
