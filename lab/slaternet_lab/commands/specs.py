"""Before a game: the shipped specs, and the theory's assumptions on a spec."""

from typing import Annotated

import typer

from slaternet.errors import BadSpec
from slaternet_lab.commands.options import AdversaryOption, JsonOption, SetOption, SpecArgument, overrides
from slaternet_lab.commands.report import print_fields, print_findings, print_json


def specs(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The spec to print; absent: list all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the shipped specs, or print one to edit."""
    from slaternet_lab.specs import shipped

    if name is not None:
        typer.echo(shipped.shipped(name).text, nl=False)
        return
    titles = [(each, shipped.shipped(each).title) for each in shipped.names()]
    if as_json:
        print_json([{"name": each, "title": title} for each, title in titles])
    else:
        print_fields(titles)


def check(
    spec: SpecArgument = None,
    adversary: AdversaryOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Validate a spec and the theory's assumptions on it; no agent plays. Errors end with exit code 2."""
    from slaternet_lab.assumptions.report import examine
    from slaternet_lab.specs.assemble import assemble
    from slaternet_lab.specs.resolve import read

    report = examine(assemble(*read(spec, overrides(settings, adversary))), thorough=True)
    print_findings(report, {"verdict": "verdict", "about": "about", "figures": "text"}, as_json=as_json)
    for each in report:
        if each.verdict == "error":
            raise BadSpec(each.text)
