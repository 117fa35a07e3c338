"""How hard properties are tried, and what no test of streams may leave behind.

`HYPOTHESIS_PROFILE=thorough make test` tries ten times as many examples.
"""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("quick", max_examples=40, deadline=None)
settings.register_profile("thorough", max_examples=400, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have a cache folder of our own, also in processes that tests start; matplotlib keeps its fonts in the user's."""
    before = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    os.environ.setdefault("MPLCONFIGDIR", str(Path(before) / "matplotlib"))
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def nothing_is_left_behind(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Refuse tasks and streams that nobody has seen to their end: asyncio and gRPC complain of them in the log."""
    yield
    gc.collect()
    assert [record.getMessage() for record in caplog.records if record.name.startswith(("asyncio", "grpc"))] == []
