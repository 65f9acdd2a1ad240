"""Types of the command line's arguments: what they take, and argparse's line for what they refuse."""

from __future__ import annotations

import math
import re
from argparse import ArgumentTypeError
from pathlib import Path

MOST_SECONDS = 1e6  # eleven days; the system's timers take little more
MOST_RANKS = 1 << 20


def path(text: str) -> Path:
    """A file or folder, ~ and ~user understood."""
    if not text:
        raise ArgumentTypeError(
            "the name is empty (a variable that is not set?): give a name, . for the working folder"
        )
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ArgumentTypeError(f"{text}: there is no user {text.split('/')[0][1:]}: write the whole path") from None


def seconds(text: str) -> float:
    """More than nothing, and no more than a timer takes."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= MOST_SECONDS:
        raise ArgumentTypeError(f"{text} is no number of seconds: give one above 0, up to {MOST_SECONDS:.0f}")
    return number


def ranks(text: str) -> int:
    if (number := whole(text)) is None or not 1 <= number <= MOST_RANKS:
        raise ArgumentTypeError(f"{text} is no number of ranks: give a whole number from 1 to {MOST_RANKS}")
    return number


def whole(text: str) -> int | None:
    """A whole number of up to 18 digits; None: it is none, or longer than anything that is counted here."""
    return int(text) if re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text, re.ASCII) else None
