"""How a spec names a program that the game starts."""

from pathlib import Path

import pytest

from slaternet.errors import BadSpec
from slaternet.spec import Spec
from slaternet.spec.plugins import absolute, is_python
from slaternet.spec.programs import words

SPEC = """
[run]
agents = 2
dimension = 1
[set]
kind = "ball"
radius = 1.0
[algorithm]
name = "zhang2024"
[graph]
name = "ring"
[adversary]
plugin = '{}'
"""


def test_words_are_separated_as_in_a_shell_and_read_by_none() -> None:
    target = """exec:./drones "a b" '$HOME' *.csv --port={port}"""

    assert words(target) == ["./drones", "a b", "$HOME", "*.csv", "--port={port}"]
    assert Spec.parse(SPEC.format(target.replace("'", "")), source="test").adversary.plugin.startswith("exec:./drones")
    assert not is_python(target)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("exec:", 'must name a program, as "exec:./drones --port {port}" does'),
        ('exec:"" {port}', "must name a program"),
        ("exec:./drones", "must tell the program where to serve, by an argument with either {port} or {socket}"),
        ("exec:./drones {port} {socket}", "by an argument with either {port} or {socket}"),
        ("exec:./{port}", "by an argument with either {port} or {socket}"),
        ('exec:./drones "{port}', "must have a closing quote for every quote"),
    ],
)
def test_what_is_no_command_is_refused_where_the_spec_is_read(target: str, sentence: str) -> None:
    with pytest.raises(BadSpec) as refused:
        Spec.parse(SPEC.format(target), source="test")

    assert str(refused.value).startswith("test: adversary.plugin must ")
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("written", "made"),
    [
        ("exec:./drones --port {port}", "exec:/games/drones --port '{port}'"),
        ("exec:bin/drones {socket}", "exec:/games/bin/drones '{socket}'"),
        ("exec:node ./server.js {port}", "exec:node /games/server.js '{port}'"),
        ("exec:node '../my server.js' {port}", "exec:node '/my server.js' '{port}'"),
        ("exec:node server.js {port}", "exec:node server.js {port}"),
        ("exec:/else/drones {port}", "exec:/else/drones {port}"),
        ("exec:/games/drones '{port}'", "exec:/games/drones '{port}'"),
    ],
)
def test_the_program_and_arguments_that_are_relative_paths_begin_at_the_spec_s_folder(written: str, made: str) -> None:
    assert absolute(written, Path("/games")) == made
