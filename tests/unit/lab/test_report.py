"""What commands print may have been chosen by others: it is shown as it stands, and nothing in it is obeyed."""

import pytest

from slaternet_lab.commands.report import print_fields, print_line, print_table

HOSTILE = "[red]x[/red] [link=http://a]b[/link]\x1b[2J\n\u202eagain\\"
SHOWN = "[red]x[/red] [link=http://a]b[/link]?[2J??again\\"


def test_texts_of_others_are_neither_markup_nor_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("what", "verdict"), [(HOSTILE, "ok")], width=200)
    print_fields([("what", HOSTILE)])
    print_line(HOSTILE)

    _, row, field, line = capsys.readouterr().out.splitlines()
    assert row.split() == [*SHOWN.split(), "ok"]
    assert field.strip() == f"what  {SHOWN}"
    assert line == SHOWN
