# SPDX-License-Identifier: Apache-2.0 OR MIT
"""proxy.py - a TCP proxy that adds a round trip and limits bandwidth. Standard library only.

Every byte is passed on half a round trip after it came, in both directions; a new connection costs one round trip
more before its first byte goes on, as a TCP handshake does (loopback's own takes no time). Bytes towards the client
share one link; besides, each connection has a limit of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time

CHUNK = 128 << 10


class Bucket:
    """When a link of that rate (bytes a second; 0: no limit) is free for so many bytes more."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.free_at = 0.0

    def take(self, size: int) -> float:
        if self.rate == 0.0:
            return 0.0
        self.free_at = max(self.free_at, time.monotonic()) + size / self.rate
        return self.free_at


class Proxy:
    def __init__(
        self, port: int, rtt: float, link: float = 0.0, each: float = 0.0, handshake: bool = True
    ) -> None:
        self.target = port
        self.rtt = rtt
        self.link = Bucket(link)
        self.each = each
        self.handshake = handshake
        self.down = 0
        self.port = 0
        self.tasks: set[asyncio.Task] = set()  # a loop alone keeps no task alive
        self.ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True).start()
        self.ready.wait()

    @property
    def url(self) -> str:
        return "http://127.0.0.1:%d" % self.port

    async def serve(self) -> None:
        server = await asyncio.start_server(self.client, "127.0.0.1", 0, limit=4 * CHUNK, backlog=256)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        async with server:
            await server.serve_forever()

    async def pump(self, reader, writer, first: float, buckets: list[Bucket]) -> None:
        queue: asyncio.Queue = asyncio.Queue(maxsize=256)

        async def passing() -> None:
            while True:
                due, data = await queue.get()
                wait = due - time.monotonic()
                if wait > 0:
                    await asyncio.sleep(wait)
                if not data:
                    break
                writer.write(data)
                await writer.drain()

        task = asyncio.create_task(passing())
        try:
            while True:
                data = await reader.read(CHUNK)
                due = max([time.monotonic()] + [b.take(len(data)) for b in buckets]) + self.rtt / 2
                due = max(due, first)
                if buckets:
                    self.down += len(data)
                await queue.put((due, data))
                if not data:
                    break
            await task
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            try:
                writer.close()
            except ConnectionError:
                pass

    async def client(self, reader, writer) -> None:
        begun = time.monotonic()
        own = asyncio.current_task()
        self.tasks.add(own)
        own.add_done_callback(self.tasks.discard)
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target, limit=4 * CHUNK)
        first = begun + (self.rtt * 1.5 if self.handshake else 0.0)
        await asyncio.gather(
            self.pump(reader, up_writer, first, []),
            self.pump(up_reader, writer, 0.0, [self.link, Bucket(self.each)]),
            return_exceptions=True,
        )
