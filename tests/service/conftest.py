import secrets

import pytest
from harness import SECRET


@pytest.fixture(autouse=True)
def known_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test make the tickets of the processes it plays false; chance is the only thing taken from the game."""
    monkeypatch.setattr(secrets, "token_bytes", lambda length: SECRET[:length])
