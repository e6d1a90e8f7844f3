"""A proxy as stands before a hub: it passes bytes on, and aborts WebSockets on which nothing moves."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Final

_CHUNK: Final = 65_536


class CuttingProxy:
    """Passes everything on to a port, and resets a WebSocket that is silent, as a load balancer does."""

    def __init__(self, port: int, idle_s: float) -> None:
        self._target, self._idle_s = port, idle_s
        self.cuts = 0
        self.refuses = False
        """Whether WebSockets are cut at once: as long as that holds, a page has no connection."""
        self._links: set[_Link] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._pass_on, "127.0.0.1", 0)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        link = _Link((reader, far_writer), (far_reader, writer))
        self._links.add(link)
        watching = asyncio.ensure_future(self._watch(link))
        await asyncio.wait([asyncio.ensure_future(link.pump(way)) for way in link.ways])
        watching.cancel()
        self._links.discard(link)
        for each in (writer, far_writer):
            each.close()

    async def _watch(self, link: _Link) -> None:
        while True:
            await asyncio.sleep(0.05)
            idle_s = time.monotonic() - link.moved
            if link.upgraded and (self.refuses or idle_s > self._idle_s):
                self.cuts += 1
                link.cut()
                return

    def close(self) -> None:
        """Stop listening, cut everything and end the thread."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for link in self._links:
            link.cut()
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks, timeout=10)


class _Link:
    """One connection, both ways."""

    def __init__(self, *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.ways = ways
        self.upgraded = False
        self.moved = time.monotonic()

    def cut(self) -> None:
        """Reset both sides."""
        for _, writer in self.ways:
            writer.transport.abort()

    async def pump(self, way: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        """Pass on what comes from one side until it ends."""
        reader, writer = way
        with contextlib.suppress(OSError):  # either side may be gone
            while chunk := await reader.read(_CHUNK):
                self.moved = time.monotonic()
                self.upgraded = self.upgraded or b"upgrade: websocket" in chunk.lower()
                writer.write(chunk)
                await writer.drain()
        with contextlib.suppress(OSError):
            if not writer.is_closing() and writer.can_write_eof():
                writer.write_eof()
