"""`slaternet record`: write the functions of a spec's adversary to a file that `replay` plays."""

import itertools
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slaternet.errors import BadSpec
from slaternet_lab.commands.options import AdversaryOption, ForceOption, JsonOption, SetOption, SpecArgument, overrides
from slaternet_lab.commands.report import bar, print_fields, print_json

if TYPE_CHECKING:
    from slaternet.spec import Spec


def record(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The .npz file to write.")],
    spec: SpecArgument = None,
    adversary: AdversaryOption = None,
    settings: SetOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play the adversary of a spec without agents and write its functions, for adversary.plugin = "replay"."""
    from slaternet_adversary.builtin import trace
    from slaternet_adversary.plugin.makers import open_plugin
    from slaternet_lab.functions.recording import recorded
    from slaternet_lab.specs.resolve import load

    # built-in forms are arrays only in their own process; --set adversary.isolation=process records closed forms
    game = load(spec, ["adversary.isolation=none", *overrides(settings, adversary)])
    rounds = game.run.rounds
    if rounds is None:
        raise BadSpec("run.rounds is missing, and a record has an end; say --set run.rounds=1000")
    _check_file(out, force)
    with open_plugin(game) as (plugin, _), bar() as shown:
        each_round = recorded(plugin, game.adversary.plugin, rounds)
        first = next(each_round)
        _check_room(out, rounds * sum(array.nbytes for array in first.values()))
        each = shown.track(itertools.chain([first], each_round), "recording", rounds)
        try:
            trace.write(out, rounds, first["matrix"].shape[1] - plugin.constraints, each)
        except OSError as error:
            raise BadSpec(
                f"--out {out} cannot be written: {error.strerror}; mend that or choose another path"
            ) from None
    _show(game, rounds, out, "hessian" not in first, as_json)


def _check_file(out: Path, force: bool) -> None:
    if out.suffix != ".npz":
        raise BadSpec(f"--out {out} must end in .npz; write --out {out.stem}.npz")
    if not out.parent.is_dir():
        raise BadSpec(f"--out {out} lies in a folder that does not exist; make it first")
    if out.exists() and not force:
        raise BadSpec(f"--out {out} exists; name another file, or add --force to overwrite it")


def _check_room(out: Path, size: int) -> None:
    """Refuse, before the first byte is written, what does not fit on the disk."""
    free = shutil.disk_usage(out.parent).free
    if 2 * size > free:
        raise BadSpec(
            f"--out {out} would take {size / 1e6:.1f} MB, twice that while it is written, and {free / 1e6:.1f} MB are "
            "free; record fewer rounds (--set run.rounds=...) or elsewhere"
        )


def _show(spec: "Spec", rounds: int, out: Path, exact: bool, as_json: bool) -> None:
    from slaternet_adversary.builtin.trace import Trace

    trace = Trace(out, "--out")
    result = {
        "file": str(out),
        "adversary": spec.adversary.plugin,
        "rounds": rounds,
        "agents": trace.agents,
        "dimension": trace.dimension,
        "rows": trace.rows,
        "constraints": trace.constraints,
        "same_digest": exact,
        "bytes": out.stat().st_size,
        "sha256": trace.sha256(),
    }
    if as_json:
        print_json(result)
        return
    play = f"--set adversary.plugin=replay --set adversary.options.path={out}"
    print_fields([*((name, str(value)) for name, value in result.items()), ("play it", play)])
