"""The command that starts the coordinator on a resolved spec."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slaternet.errors import BadSpec
from slaternet.service.config import ProcessConfig
from slaternet.service.main import run
from slaternet.service.options import with_process_options
from slaternet_coordinator.engine.rules import LOST_AFTER, Policy

if TYPE_CHECKING:
    from slaternet.spec import Spec

HostsOption = Annotated[
    int | None,
    typer.Option(envvar="SLATERNET_HOSTS", min=1, help="Agent hosts to wait for. Absent: until no further host joins."),
]

coordinator_options = with_process_options(
    name="coordinator", listen="127.0.0.1:7000", without=("coordinator", "advertise")
)
"""Gives a command the options of a coordinator's process."""

PolicyOption = Annotated[
    Policy,
    typer.Option(
        envvar="SLATERNET_POLICY",
        help="A host that does not return: wait for it; replace it, another plays its agents; or let them leave.",
    ),
]
LostAfterOption = Annotated[
    float,
    typer.Option(
        envvar="SLATERNET_LOST_AFTER", min=1, metavar="SECONDS", help="How long a host may be away before it is lost."
    ),
]


def serve_coordinator(spec: "Spec", config: ProcessConfig, hosts: int | None, policy: Policy, lost_after: float) -> int:
    """Serve until the game is over; the address is the one line on standard output."""
    from slaternet_coordinator.shell.service import CoordinatorService

    service = CoordinatorService(
        spec,
        config,
        hosts=hosts,
        policy=policy,
        lost_after=lost_after,
        ready=lambda address: print(f"listening on {address}", flush=True),
    )
    return run(service.run)


@coordinator_options
def coordinator(
    spec: Annotated[Path, typer.Argument(help="A resolved spec, as a run folder holds it.")],
    config: ProcessConfig,
    hosts: HostsOption = None,
    policy: PolicyOption = Policy.WAIT,
    lost_after: LostAfterOption = LOST_AFTER,
) -> None:
    """Seat the hosts of a game, publish its graph round by round, end it."""
    from slaternet.storage.files import read_spec

    parsed = read_spec(spec)
    if parsed.feedback is None or parsed.question is None:
        lacking = "feedback" if parsed.feedback is None else "question"
        raise BadSpec(
            f"{spec} is not resolved, because it lacks [{lacking}]; start it with `slaternet coordinator` instead"
        )
    raise typer.Exit(serve_coordinator(parsed, config, hosts, policy, lost_after))
