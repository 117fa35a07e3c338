"""A network that misbehaves by seed: packets between namespaces are lost, doubled and delayed, hence reordered.

Run as `python relay.py SEED DEVICE NAME:NAMESPACE:ADDRESS ...`: one TUN device per namespace, and a link for each
ordered pair of names. Every line on standard input is a command in JSON, every line on standard output its answer;
the end of input ends the relay.

    {"faults": {...}, "source": "a", "destination": "b"}    sets a link's faults; without a name, those of all it fits
    {"statistics": true}                                    asks what has happened so far, link by link

What befalls the k-th packet of a link depends on (seed, link, k) and on the faults set then, and on nothing else.
"""

import heapq
import json
import os
import random
import select
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tests.cluster.namespaces import attach

Command = dict[str, Any]

_PACKET_BYTES = 1 << 16
_PACKETS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Faults:
    """What a link does to a packet; the default is a perfect wire."""

    delay: float = 0.0
    """Mean delay in seconds."""
    jitter: float = 0.0
    """The delay of each packet is uniform in delay - jitter to delay + jitter."""
    loss: float = 0.0
    """Probability that a packet vanishes; 1: the link is cut, in this direction."""
    duplication: float = 0.0
    """Probability that a packet arrives twice, each copy with a delay of its own."""


@dataclass(slots=True)
class Statistics:
    """What has happened on a link."""

    packets: int = 0
    """Packets that were sent."""
    bytes: int = 0
    lost: int = 0
    duplicated: int = 0
    delivered: int = 0
    """Copies that arrived."""
    reordered: int = 0
    """Copies that arrived after one of a packet sent later."""


class Link:
    """One direction between two machines."""

    def __init__(self, seed: int, source: str, destination: str) -> None:
        self.source = source
        self.destination = destination
        self.faults = Faults()
        self.statistics = Statistics()
        self._random = random.Random(f"{seed} {source} {destination}")
        self._newest = 0

    def send(self, size: int) -> list[float]:
        """Return the delays of the copies of the next packet that will arrive: of none if it is lost."""
        # Four numbers for each packet, used or not: the fates of later ones do not depend on what is set now.
        lost, doubled, first, second = (self._random.random() for _ in range(4))
        faults, statistics = self.faults, self.statistics
        statistics.packets += 1
        statistics.bytes += size
        if lost < faults.loss:
            statistics.lost += 1
            return []
        chances = [first]
        if doubled < faults.duplication:
            statistics.duplicated += 1
            chances.append(second)
        return [max(0.0, faults.delay + faults.jitter * (2.0 * chance - 1.0)) for chance in chances]

    def deliver(self, number: int) -> None:
        """Take note that a copy of the packet of this number arrives."""
        self.statistics.delivered += 1
        self.statistics.reordered += number < self._newest
        self._newest = max(self._newest, number)

    def fits(self, command: Command) -> bool:
        """Say whether a command speaks of this link."""
        return command.get("source") in (None, self.source) and command.get("destination") in (None, self.destination)


class Relay:
    """Every link, and the packets on their way."""

    def __init__(self, seed: int, addresses: dict[str, bytes], devices: dict[str, int]) -> None:
        self._links = {(a, b): Link(seed, a, b) for a in devices for b in devices if a != b}
        self._names = {address: name for name, address in addresses.items()}
        self._devices = devices
        self._due: list[tuple[float, int, int, Link, bytes]] = []
        self._copies = 0

    def run(self, commands: int) -> None:
        """Forward packets and obey until the commands end."""
        sources = {device: name for name, device in self._devices.items()}
        unfinished = b""
        while True:
            ready, _, _ = select.select([commands, *sources], [], [], self._pause())
            for device in ready:
                if device != commands:
                    self._read(sources[device], device)
                    continue
                data = os.read(commands, _PACKET_BYTES)
                if not data:
                    return
                *lines, unfinished = (unfinished + data).split(b"\n")
                for line in lines:
                    print(json.dumps(self._obey(json.loads(line))), flush=True)
            self._write()

    def _pause(self) -> float | None:
        """Return how long nothing is due; None: until something arrives."""
        return max(0.0, self._due[0][0] - time.monotonic()) if self._due else None

    def _read(self, source: str, device: int) -> None:
        for _ in range(_PACKETS_AT_ONCE):
            try:
                packet = os.read(device, _PACKET_BYTES)
            except BlockingIOError:
                return
            # what is neither IPv4 nor for one of us, such as a router solicitation, goes nowhere
            destination = self._names.get(packet[16:20]) if packet[0] >> 4 == 4 else None
            if link := self._links.get((source, destination or "")):
                self._send(link, packet)

    def _send(self, link: Link, packet: bytes) -> None:
        now = time.monotonic()
        for delay in link.send(len(packet)):
            self._copies += 1  # ties go in order
            heapq.heappush(self._due, (now + delay, self._copies, link.statistics.packets, link, packet))

    def _write(self) -> None:
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            _, _, number, link, packet = heapq.heappop(self._due)
            try:
                os.write(self._devices[link.destination], packet)
            except OSError:  # the device is down: the packet is lost there
                link.statistics.lost += 1
            else:
                link.deliver(number)

    def _obey(self, command: Command) -> Command | list[Command]:
        links = self._links.values()
        if "faults" in command:
            meant = [link for link in links if link.fits(command)]
            for link in meant:
                link.faults = Faults(**command["faults"])
            return {"links": len(meant)}
        return [{"source": each.source, "destination": each.destination} | asdict(each.statistics) for each in links]


def main(seed: str, device: str, machines: Iterable[str]) -> None:
    """Attach to every namespace, say so, and relay."""
    addresses, devices = {}, {}
    for machine in machines:
        name, namespace, address = machine.split(":")
        addresses[name] = bytes(map(int, address.split(".")))
        devices[name] = attach(namespace, device)
    relay = Relay(int(seed), addresses, devices)
    print(json.dumps({"machines": len(devices)}), flush=True)
    relay.run(sys.stdin.fileno())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
