"""`slaternet algorithm-check`: examine an algorithm."""

from typing import Annotated

import typer

from slaternet.errors import BadSpec, PluginFailed
from slaternet_lab.commands.options import JsonOption, with_traceback
from slaternet_lab.commands.report import print_findings

_AROUND = {
    "run": {"agents": 1, "dimension": 1},
    "set": {"kind": "box"},
    "graph": {"name": "complete"},
    "adversary": {"plugin": "none"},
}
"""The rest of a spec, so that [algorithm] is read as in one; the exam brings its own game."""


@with_traceback
def algorithm_check(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A name, pkg.module:Class or path/file.py:Class of an algorithm.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A key of [algorithm], as in algorithm.gamma0=0.1; repeatable."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check that an algorithm keeps its contract: rowwise, pure, restored from its state, inside the set."""
    from slaternet.spec import Spec
    from slaternet.spec.overrides import override
    from slaternet_agent.testing.exam import examine

    for setting in settings or []:
        if not setting.startswith("algorithm."):
            raise BadSpec(f"--set {setting} is no key of [algorithm]; write for example --set algorithm.gamma0=0.1")
    tables = override({**_AROUND, "algorithm": {"name": target}}, settings or [])
    report = examine(Spec.load(tables, source="--set").algorithm)
    print_findings(report, {"verdict": "verdict", "about": "about", "finding": "text"}, as_json=as_json)
    for each in report:
        if each.verdict == "error":
            raise PluginFailed.saying(f"algorithm {target} breaks its contract: {each.text}", each.fault)
