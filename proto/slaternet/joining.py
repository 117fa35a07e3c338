"""How hosts and the adversary come into a game: find the coordinator, serve, join."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import structlog

from slaternet import codec
from slaternet.addresses import reachable
from slaternet.limits import LIMITS
from slaternet.membership import Applicant, Membership, answered
from slaternet.meter import Meter
from slaternet.model import Head, Role
from slaternet.seats import EVEN, Wish
from slaternet.state import State
from slaternet.station import Station
from slaternet.transport import StreamHandler, serve

log = structlog.get_logger()

_STATUS = "/slaternet.v1.Coordinator/Status"


@asynccontextmanager
async def joined(
    station: Station,
    role: Role,
    *,
    service: str,
    streams: Mapping[str, StreamHandler],
    meter: Meter,
    state: State,
    seats: Wish = EVEN,
) -> AsyncIterator[Membership]:
    """Serve `service` and join the game of the station's coordinator, waiting for both it and our certificates.

    The server ends with the block.
    """
    security = await station.security()
    asked = codec.encode_status_request(Head("", 0, 0, station.name))
    _, status = codec.decode_status_reply(
        await answered(station.coordinator, _STATUS, asked, security, station.environment)
    )
    server = await serve(
        station.listening,
        service=service,
        unary={},
        streams=streams,
        hosts=min(status.agents, LIMITS.hosts),
        security=security,
        meter=meter,
    )
    try:
        address = station.advertise or reachable(server.address, station.coordinator)
        log.info("listening", address=server.address)
        applicant = Applicant(station.name, role, address, seats)
        yield await Membership.join(
            station.coordinator, applicant, server.breaches, security, meter, state, station.environment
        )
    finally:
        await server.stop()
