"""The operator of a game: ends one that has no end, and starts another host where nobody is left who could play on."""

from typing import TYPE_CHECKING

from tests.simulation.loop import Life

from slaternet import codec
from slaternet.errors import SlaternetError
from slaternet.model import COORDINATOR, Head
from slaternet.network.client import call, open_channel

if TYPE_CHECKING:
    from tests.simulation.world import World

OPERATOR = "operator"
HELP = "agent-9"
"""The host that is started where nobody is left."""
_STOP = "/slaternet.v1.Coordinator/Stop"


class Operator:
    """Does what a game needs from outside."""

    def __init__(self, world: "World", address: str) -> None:
        self._world = world
        self._address = address
        self.life = Life(OPERATOR, 1)

    def stop(self) -> None:
        """Ask for the end from some round on, again and again until it is heard."""
        world = self._world
        if world.witness.stopping:
            return
        if world.witness.recorded >= world.game.stop:
            world.loop.spawn(self.life, self._ask_to_stop())
        world.loop.outside(0.05, self.stop)

    async def _ask_to_stop(self) -> None:
        try:
            async with open_channel(self._address, COORDINATOR) as channel:
                await call(channel, _STOP, codec.encode_stop_request(Head("", 0, 0, OPERATOR)))
        except SlaternetError as error:  # while the coordinator is away
            self._world.say(f"cannot stop the game: {error}")

    def help(self) -> None:
        """Start another host once all are lost or gone for ever."""
        world = self._world
        if world.witness.rounds:
            return
        if all(name in world.gone or name in world.witness.register.lost for name in world.hosts):
            world.add_host(HELP)
        else:
            world.loop.outside(1.0, self.help)
