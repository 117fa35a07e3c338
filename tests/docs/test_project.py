"""What the project says of itself agrees: version, licence, citation, and the versions of Python that are checked."""

import re
import tomllib

import yaml
from tests.docs.pages import ROOT, read

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_newest_entry_of_the_changelog_is_dated_and_is_the_version() -> None:
    entries = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", read("CHANGELOG.md"), re.MULTILINE)

    assert entries[0] == (PROJECT["version"], str(CITATION["date-released"]))
    assert CITATION["version"] == PROJECT["version"]


def test_the_licence_is_one_everywhere() -> None:
    assert PROJECT["license"] == CITATION["license"] == "Apache-2.0"
    assert PROJECT["license-files"] == ["LICENSE"]
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert "!LICENSE\n" in (ROOT / ".dockerignore").read_text()  # the wheel of the image has it


def test_the_workflow_checks_every_version_of_python_that_is_named() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text())
    versions = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]

    assert workflow["jobs"]["check"]["strategy"]["matrix"]["python"] == versions
    assert "make check" in workflow["jobs"]["check"]["steps"][-1]["run"]


def test_the_hooks_fetch_nothing() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]

    assert [each["repo"] for each in hooks] == ["local"]
    assert {hook["language"] for each in hooks for hook in each["hooks"]} == {"system"}
