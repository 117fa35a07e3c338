"""Worlds in which something went wrong once: played again for ever, each with its story.

How a seed's world goes changes with the product, for every step that it takes draws a number: what a story has taught
belongs into a test of its own, too.
"""

STORIES: dict[str, str] = {
    "14 --harsh --policy leave": "who was given up held back the last row: the end was told, and no summary written",
    "23 --policy leave": "what was told to a host while it recalled the past was forgotten when another came back",
    "32 --policy leave": "the stream of a host that was given up had not ended yet, and the adversary looked for it",
    "94 --policy leave": "a stream came between two seatings, and who is new in the second was unknown to the first",
    "226 --policy leave": "who went on with a journal did not see to it that its name survives a loss of power",
    "954": "not the product but the witness: the adversary may hear of M late, and keeps two windows of its ledger",
    "1567": "what an adversary had asked before its death came after its next life had joined, and ended that",
}
"""By seed, with --harsh where it is of a harsh world, and --policy where that is not the one of the seed."""
