"""`sparring methods`: what there is, what it costs, when to use it. The methods' own docstrings say so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from inspect import cleandoc

from sparring.cli import console
from sparring.method import Method
from sparring.methods import METHODS


@dataclass(frozen=True, kw_only=True)
class Options:
    """List the methods: paper, cost in passes, when to use which."""


def run(_: Options) -> int:
    """Print a table."""
    rows = [(name, str(kind().passes), "\n".join([*about(kind), ""])) for name, kind in METHODS.items()]
    console.table(["method", "passes a batch", "what it does, and when to use it"], rows, text=3)
    print(
        "Passes are at the defaults. A full pass is a forward and a backward, an ascent pass computes no\n"
        "weight gradients. `sparring train --method NAME --help` lists a method's arguments."
    )
    return 0


def about(method: type[Method]) -> list[str]:
    """The docstring's first line, its sentence on when to prefer the method, the paper with its address."""
    text = cleandoc(method.__doc__ or "").partition("\nArgs:")[0]
    what, _, rest = text.partition("\n")
    rest = " ".join(rest.split())
    prefer = re.findall(r"Prefer [^.]*\.", rest)
    paper = re.match(r"(.*?\d{4}), .*?\((https?://[^)]*)\)", rest)
    return [what.replace("`", ""), *prefer, *([f"{paper[1]}, {paper[2]}"] if paper else [])]
