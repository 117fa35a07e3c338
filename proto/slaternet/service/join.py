"""How hosts and the adversary enter a game: join, and serve."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import structlog

from slaternet.limits import LIMITS
from slaternet.model import Role
from slaternet.network.addresses import check_plaintext, reachable, reserved
from slaternet.network.certificates import Plain
from slaternet.network.server import StreamHandler, serve
from slaternet.network.traffic import Meter
from slaternet.service.config import ProcessConfig
from slaternet.service.membership import Applicant, Membership, until_reached
from slaternet.spec.seat_request import EVEN, SeatRequest
from slaternet.storage.state_dir import StateDir

log = structlog.get_logger()


@asynccontextmanager
async def join_game(
    config: ProcessConfig,
    role: Role,
    *,
    service: str,
    streams: Mapping[str, StreamHandler],
    meter: Meter,
    state: StateDir,
    seats: SeatRequest = EVEN,
) -> AsyncIterator[Membership]:
    """Join the game and serve `service` within the block, waiting for the coordinator and for our certificates.

    Join carries the address, and its answer the number of agents, which bounds what the server accepts: so the port is
    reserved before and served after.
    """
    security = await config.security()
    if isinstance(security, Plain):
        check_plaintext(config.listening, insecure=security.anywhere, what="--listen")
    with reserved(config.listening) as listening:
        facing = partial(reachable, listening, config.coordinator)
        address = config.advertise or await until_reached(config.coordinator, facing, config.environment)
        applicant = Applicant(config.name, role, address, seats)
        membership = await Membership.join(config.coordinator, applicant, security, meter, state, config.environment)
        server = await serve(
            listening,
            service=service,
            unary={},
            streams=streams,
            hosts=min(membership.spec.run.agents, LIMITS.hosts),
            security=security,
            meter=meter,
            breaches=membership.breaches,
        )
    try:
        log.info("listening", address=server.address)
        yield membership
    finally:
        await server.stop()
