"""Adversarial training of transformer language models.

The names below are the public ones. Each is imported when it is first used, so that what needs no torch, the
command line's help among it, doesn't wait for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparring.balls import L1, L2, Ball, Linf
    from sparring.errors import InputError
    from sparring.game import Game
    from sparring.method import Method, Passes, Properties
    from sparring.methods import FGM, FGSM, METHODS, PGD, FreeLB, Plain
    from sparring.sites import Embeddings, Output, Site, Weight
    from sparring.wrappers import Delayed, Every

__version__ = "0.1.0"

__all__ = [
    "FGM",
    "FGSM",
    "L1",
    "L2",
    "METHODS",
    "PGD",
    "Ball",
    "Delayed",
    "Embeddings",
    "Every",
    "FreeLB",
    "Game",
    "InputError",
    "Linf",
    "Method",
    "Output",
    "Passes",
    "Plain",
    "Properties",
    "Site",
    "Weight",
]

_HOMES = {
    "balls": ("L1", "L2", "Ball", "Linf"),
    "errors": ("InputError",),
    "game": ("Game",),
    "method": ("Method", "Passes", "Properties"),
    "methods": ("FGM", "FGSM", "METHODS", "PGD", "FreeLB", "Plain"),
    "sites": ("Embeddings", "Output", "Site", "Weight"),
    "wrappers": ("Delayed", "Every"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"sparring.{home}"), name)
    raise AttributeError(f"module 'sparring' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
