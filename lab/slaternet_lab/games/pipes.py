"""Pipes between a game's processes."""

import asyncio
import os
from io import FileIO


def pipe() -> tuple[FileIO, FileIO]:
    """Return the end of a pipe to read from, and the one to write to."""
    reading, writing = os.pipe()
    return FileIO(reading, "rb"), FileIO(writing, "wb")


async def reader(output: FileIO) -> asyncio.StreamReader:
    """Return a reader of the end of a pipe."""
    there = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(there), output)
    return there
