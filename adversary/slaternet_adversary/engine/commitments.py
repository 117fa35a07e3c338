"""Commitments, by which the adversary fixes a round before it reveals any value of it.

The commitment of round t is SHA-256 over, one after the other,
    code       32 bytes   SHA-256 of the plugin's code and what it imports of its own; zeros where it is not known
    options    32 bytes   SHA-256 of [adversary.options] as canonical JSON (keys sorted, no spaces, ASCII)
    seed, t    8 bytes each, little-endian
    d_{t-1}    32 bytes   only where the plugin's history > 0: the digest of all decisions it may know
so that anyone with the spec, the code and the decisions can recompute every round and check that none was changed.
Where the code was amended within the game, each round has the code of its segment.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

from slaternet_adversary.engine.amendments import Segment


class Commitments:
    """The commitments of one game."""

    def __init__(
        self,
        code: str = "",
        options: Mapping[str, object] | None = None,
        seed: int = 0,
        later: Sequence[Segment] = (),
    ) -> None:
        """`code` is that of the first segment, `later` are the others."""
        canonical = json.dumps(options or {}, sort_keys=True, separators=(",", ":"), allow_nan=False)
        rest = hashlib.sha256(canonical.encode()).digest() + seed.to_bytes(8, "little")
        self._newest_first = [
            (each.round, hashlib.sha256((bytes.fromhex(each.code) if each.code else bytes(32)) + rest))
            for each in reversed((Segment(1, code), *later))
        ]

    def of(self, round: int, digest: bytes = b"") -> str:
        """Return the commitment of a round in hexadecimal digits; `digest` is d_{t-1} where the plugin may know it."""
        commitment = next(game for first, game in self._newest_first if round >= first).copy()
        commitment.update(round.to_bytes(8, "little") + digest)
        return commitment.hexdigest()
