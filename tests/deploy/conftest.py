"""One engine and one image for all tests."""

from collections.abc import Iterator

import pytest
from tests.deploy.containers import IMAGE, ROOT, Engine, NoEngine


@pytest.fixture(scope="session")
def engine() -> Engine:
    """Set up podman, or skip what needs it and say why."""
    try:
        return Engine()
    except NoEngine as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def image(engine: Engine) -> Iterator[str]:
    """Build this tree's image; afterwards only its libraries are kept, so that the next build takes seconds."""
    engine.podman("build", "--target=libraries", "--tag=localhost/slaternet-libraries", ROOT)
    engine.podman("build", f"--tag={IMAGE}", ROOT)
    yield IMAGE
    engine.podman("rmi", "--force", IMAGE)
    engine.podman("image", "prune", "--force")
