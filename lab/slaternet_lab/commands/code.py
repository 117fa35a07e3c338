"""`slaternet code-check`: examine a gossip code."""

from typing import Annotated

import typer

from slaternet.errors import BadSpec, PluginFailed
from slaternet_lab.commands.options import JsonOption, with_traceback
from slaternet_lab.commands.report import print_findings

_AROUND = {
    "run": {"agents": 1, "dimension": 1},
    "set": {"kind": "box"},
    "algorithm": {"name": "zero"},
    "graph": {"name": "complete"},
    "adversary": {"plugin": "none"},
}
"""The rest of a spec, so that [gossip] is read as in one; the exam brings its own game."""


@with_traceback
def code_check(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A name, pkg.module:Class or path/file.py:Class of a gossip code.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A key of the section gossip, as in gossip.width=0.1; repeatable."
        ),
    ] = None,
    width: Annotated[
        int | None, typer.Option(min=1, help="Numbers of a row; otherwise 1, 2, 13 and 200, those that the code takes.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a gossip code keeps its contract: pure, rowwise, decodes what it encodes, as good as it promises."""
    from slaternet.spec import Spec
    from slaternet.spec.overrides import override
    from slaternet_agent.code_registry import completed_gossip
    from slaternet_agent.testing.code_exam import WIDTHS, examine_code

    for setting in settings or []:
        if not setting.startswith("gossip."):
            raise BadSpec(f"--set {setting} is no key of [gossip]; write for example --set gossip.width=0.1")
    tables = override({**_AROUND, "gossip": {"code": target}}, settings or [])
    section = completed_gossip(Spec.load(tables, source="--set").gossip)
    report = examine_code(section, WIDTHS if width is None else (width,))
    print_findings(report, {"verdict": "verdict", "about": "about", "finding": "text"}, as_json=as_json)
    for each in report:
        if each.verdict == "error":
            raise PluginFailed.saying(f"gossip code {target} breaks its contract: {each.text}", each.fault)
