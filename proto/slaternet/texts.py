"""Texts of others made harmless: of peers, plugins, their processes and files, wherever such a text enters or is shown.

A text that others have chosen may hold terminal escapes, line ends that forge a line of ours, characters that turn the
direction of writing, or more than anybody reads. Where one is shown, it is shown as plain text, not as markup.
"""

from slaternet.limits import LIMITS


def cleaned(text: str) -> str:
    """Return a text as one line of at most `text_bytes`, with `?` for control characters."""
    line = printable(" ".join(text[: LIMITS.text_bytes].split()))
    return line.encode()[: LIMITS.text_bytes].decode(errors="ignore")


def cleaned_lines(text: str) -> str:
    """Return a text of several lines with `?` for what is not printable; of one that is too long the end."""
    return "\n".join(map(printable, text.rstrip()[-LIMITS.traceback_bytes :].split("\n")))


def printable(text: str) -> str:
    """Return a text, however long, with `?` for control characters, line ends and whatever else has no shape."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)
