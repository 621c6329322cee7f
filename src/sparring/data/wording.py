"""Words for error messages: names and values on one line, however long, and the nearest known name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

LONGEST, MOST = 40, 8  # characters of a name, names of a list


def shown(value: object) -> str:
    """A value quoted as in Python, so on one line, cut where it is long."""
    text = str(value)
    return repr(text if len(text) <= LONGEST else text[: LONGEST - 3] + "...")


def listed(names: Iterable[object]) -> str:
    """`'a', 'b' and 3 more`."""
    names = list(names)
    rest = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(map(shown, names[:MOST])) + rest


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """`; did you mean 'text'?`, or nothing where no known name is near. Case doesn't count."""
    folded = {str(other).casefold(): other for other in known}
    near = get_close_matches(str(name).casefold(), folded, n=1, cutoff=0.7)
    return f"; did you mean {shown(folded[near[0]])}?" if near else ""


def missing(path: Path, kind: str = "file") -> str:
    """What to say of a path that isn't there: the nearest name beside it, or that its folder is missing."""
    if not path.parent.is_dir():
        return f"there is no {kind} {path}: there is no folder {path.parent}"
    near = did_you_mean(path.name, (other.name for other in path.parent.iterdir()))
    return f"there is no {kind} {path}{near or ': check the name'}"
