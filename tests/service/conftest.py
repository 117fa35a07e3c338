"""What several modules here look at."""

import pytest
from tests.support.audits import play

from slaternet_lab import Run


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Play an honest game; two rounds of three are not scored."""
    return play(tmp_path_factory.mktemp("runs"), "record.score_every=3")
