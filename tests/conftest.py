"""How hard properties are tried: `HYPOTHESIS_PROFILE=thorough make test` tries ten times as many examples."""

import os

from hypothesis import settings

settings.register_profile("quick", max_examples=40, deadline=None)
settings.register_profile("thorough", max_examples=400, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
