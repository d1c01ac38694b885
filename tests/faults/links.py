"""The network between the processes: every link goes through here, and can be cut in one direction or both.

A cut holds what is sent, as a network does that swallows packets: nobody is told, and what was held arrives when the
link is whole again, if both ends are still there.
"""

import asyncio
import contextlib
import json
import threading
import time

READY_SECONDS = 60
THERE, BACK = "there", "back"


class Links:
    """Runs in a thread of its own: processes talk while the test waits."""

    def __init__(self, listed):
        self.listed = listed
        self.links = {}
        self.dials = {}
        self.loop = None
        self.over = asyncio.Event()
        self.carrying = set()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self.thread.start()

    def cut(self, asker, asked, ways=(THERE, BACK)):
        for way in ways:
            self.loop.call_soon_threadsafe(self.links[asker, asked].gates[way].clear)

    def heal(self):
        for link in self.links.values():
            for gate in link.gates.values():
                self.loop.call_soon_threadsafe(gate.set)

    def close(self):
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join()

    async def _serve(self):
        self.loop = asyncio.get_running_loop()
        await self._open()
        await self.over.wait()

    async def _open(self):
        deadline = time.monotonic() + READY_SECONDS
        while not self.listed.exists():
            assert time.monotonic() < deadline, f"{self.listed} was not written"
            await asyncio.sleep(0.02)
        for row in json.loads(self.listed.read_text()):
            link = Link(row["listens"])
            await asyncio.start_server(self._carrier(link), *address(row["dials"]))
            self.links[row["from"], row["to"]] = link
            self.dials[row["from"], row["to"]] = row["dials"]

    def _carrier(self, link):
        def carry(reader, writer):
            carrying = asyncio.create_task(link.carry(reader, writer))
            self.carrying.add(carrying)
            carrying.add_done_callback(self.carrying.discard)

        return carry


class Link:
    """From one process to another; it may be dialled many times."""

    def __init__(self, asked):
        self.asked = asked
        self.gates = {THERE: asyncio.Event(), BACK: asyncio.Event()}
        for gate in self.gates.values():
            gate.set()

    async def carry(self, reader, writer):
        try:
            await self.gates[THERE].wait()
            far_reader, far_writer = await asyncio.open_connection(*address(self.asked))
        except OSError:
            return writer.transport.abort()
        ways = [
            asyncio.create_task(self.copy(THERE, reader, far_writer)),
            asyncio.create_task(self.copy(BACK, far_reader, writer)),
        ]
        # One end that breaks takes the other along, but for one that only has nothing more to say.
        await asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, far_writer):
            end.transport.abort()

    async def copy(self, way, reader, writer):
        while True:
            data = await reader.read(65536)
            await self.gates[way].wait()
            if not data:
                with contextlib.suppress(OSError):
                    writer.write_eof()
                return
            writer.write(data)
            await writer.drain()


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)
