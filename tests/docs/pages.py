"""The documents as tests read them: sections, tables, and blocks of code with the remark beside each.

A block is run unless a comment right before it says otherwise:

    <!-- not run: REASON -->              nothing runs it, for this reason
    <!-- run by tests/FILE.py: REASON -->  another test runs it
    <!-- saved as FILE -->                it is a file of the blocks that follow
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "proto/*.md", "adversary/examples/*/*.md", "examples/*.md")
    for path in ROOT.glob(pattern)
    if "node_modules" not in path.parts
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    remark: str
    """The comment before it; empty where there is none."""

    @property
    def reason(self) -> str:
        """Why it is not run where it stands; empty where it is."""
        return self.remark if self.remark.startswith(("not run: ", "run by ")) else ""

    @property
    def file(self) -> tuple[str, bool] | None:
        """The file that it is, by first line (`# bowl.py, continued`) or remark, and whether it continues one."""
        if self.remark.startswith("saved as "):
            return self.remark.removeprefix("saved as "), False
        named = re.match(r"# ([\w.-]+\.(?:py|toml))(, continued)?\n", self.text)
        return (named[1], named[2] is not None) if named else None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page in their order."""
    found, remark, lines = [], "", enumerate(read(page).splitlines(), start=1)
    for number, line in lines:
        if fence := re.fullmatch(r"( *)```(\w*)", line):
            body = []
            for _, inner in lines:
                if inner == f"{fence[1]}```":
                    break
                body.append(inner)
            found.append(Block(page, number, fence[2], "".join(f"{each}\n" for each in body), remark))
            remark = ""
        elif comment := re.fullmatch(r"<!-- (.*) -->", line):
            remark = comment[1]
        elif line:
            remark = ""
    return found


def section(page: str, title: str) -> str:
    """Return what stands under a heading, up to the next of its level."""
    text = read(page)
    heading = re.search(rf"^(#+) {re.escape(title)}$", text, re.MULTILINE)
    assert heading is not None, f"{page} has no section {title}"
    following = re.compile(rf"^#{{1,{len(heading[1])}}} (?!\S+\.py)", re.MULTILINE)  # a comment of code is no title
    return following.split(text[heading.end() :], maxsplit=1)[0]


def first_cells(text: str) -> list[str]:
    """Return the names in backquotes in the first cells of tables."""
    return [name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(.*?)`", row)]


def anchors(page: str) -> set[str]:
    """Return what `page.md#...` may name."""
    prose = re.sub(r"^ *```.*?^ *```$", "", read(page), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}
