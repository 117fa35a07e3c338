"""Network namespaces from within: what is made while a process is inside one belongs there for good."""

import ctypes
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_IFF_TUN_NO_PI = 0x0001 | 0x1000


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Make sockets and devices in a namespace, by its name, for the duration of a block."""
    with Path("/proc/self/ns/net").open() as home, Path("/run/netns", namespace).open() as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(home.fileno())


def _enter(namespace: int) -> None:
    if _LIBC.setns(namespace, _CLONE_NEWNET):  # os.setns came with Python 3.12
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def attach(namespace: str, device: str) -> int:
    """Return the far end of a namespace's TUN device: what it reads was sent there, what it writes arrives there."""
    with inside(namespace):
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _IFF_TUN_NO_PI))
    return tun


def ip(*arguments: str) -> str:
    """Run Debian's `ip`; return what it prints."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
    return done.stdout
