"""docs/metrics.md says what is true: its table is that of the code, and its questions ask for what there is."""

import re
from pathlib import Path

import slaternet_adversary.shell.metrics
import slaternet_agent.shell.metering
import slaternet_coordinator.shell.metrics
from slaternet.service.metrics import SHARED, Metric

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
CATALOGUE: dict[str, tuple[Metric, ...]] = {
    "all": SHARED,
    "host": slaternet_agent.shell.metering.METRICS,
    "adversary": slaternet_adversary.shell.metrics.METRICS,
    "coordinator": slaternet_coordinator.shell.metrics.METRICS,
}


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) ?\| (\w+) \| (.*?) \|$", PAGE, re.MULTILINE)

    told = [(name, kind, tuple(re.findall("`(.*?)`", labels)), by, meaning) for name, kind, labels, by, meaning in rows]
    known = [
        (each.name, each.kind, each.labels, by, each.meaning) for by, metrics in CATALOGUE.items() for each in metrics
    ]
    assert told == known
    assert len({name for name, *_ in known}) == len(known)


def test_names_follow_the_conventions_of_prometheus() -> None:
    for metric in (each for metrics in CATALOGUE.values() for each in metrics):
        assert re.fullmatch(r"slaternet_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        if "second" in metric.meaning or "time" in metric.meaning.split():
            assert re.search(r"_seconds(_total)?$", metric.name)


def test_the_questions_ask_for_metrics_that_there_are() -> None:
    questions = PAGE.partition("## Questions it answers\n")[2].partition("\n## ")[0]
    known = {each.name for metrics in CATALOGUE.values() for each in metrics}

    asked = set(re.findall(r"\b(slaternet_\w+?)(?:_bucket)?\b", questions))

    assert len(asked) > 5
    assert asked <= known
