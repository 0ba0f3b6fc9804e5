"""Forward ports of the machine's loopback to the lab's: `python -m kwok.network.door_process <directory>`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import struct
from pathlib import Path

from pyroute2 import netns

from kwok.network.door import control_address
from kwok.network_namespace import CONTROL_PLANE, namespace_path

__all__ = ["Door"]

_LOOPBACK = "127.0.0.1"
_CHUNK = 1 << 16


class Door:
    """Listens in the namespace in which it was made, dials inside the lab's."""

    def __init__(self, directory: Path) -> None:
        self._address = control_address(directory)
        self._outside = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._inside = os.open(namespace_path(directory, CONTROL_PLANE), os.O_RDONLY)
        self._servers: dict[int, asyncio.Server] = {}

    async def run(self) -> None:
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        control.bind(self._address)
        # This thread, the only one, is inside from now on.
        netns.setns(self._inside, flags=0)
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        async with await asyncio.start_unix_server(self._obey, sock=control):
            await stopping.wait()

    async def _obey(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Open the ports in the request; the answer is empty, or says what is wrong."""
        asked = (await reader.read()).split()
        try:
            if _peer(writer) != os.getuid():
                raise PermissionError("the lab belongs to another user")
            for port in map(int, asked):
                if port not in self._servers:
                    self._servers[port] = await self._open(port)
        except (OSError, ValueError) as error:
            writer.write(str(error).encode())
        writer.close()

    async def _open(self, port: int) -> asyncio.Server:
        netns.setns(self._outside, flags=0)
        try:
            listener = socket.create_server((_LOOPBACK, port), backlog=128)
        finally:
            netns.setns(self._inside, flags=0)

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):  # closed, as an unused port closes its connections
                inner_reader, inner_writer = await asyncio.open_connection(_LOOPBACK, port)
                await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
            writer.close()

        return await asyncio.start_server(forward, sock=listener)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the sender has finished; the other direction may go on."""
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


def _peer(writer: asyncio.StreamWriter) -> int:
    """The user at the other end of a unix socket."""
    size = struct.calcsize("3i")
    credentials = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", credentials)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    asyncio.run(Door(parser.parse_args().directory).run())


if __name__ == "__main__":
    main()
