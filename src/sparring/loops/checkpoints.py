"""Checkpoint files that are whole or not there, and the random state that a resumed run goes on from."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Generator, nn
from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from sparring.errors import InputError
from sparring.randomness import capture, devices_of, restore


def save(state: dict[str, Any], path: Path) -> None:
    """Write `state` so that `path` holds the old content or the new one, whatever interrupts.

    Raises:
        InputError: it can't be written (a full disk); the old content is still there.
    """
    new = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with new.open("wb") as file:
            torch.save(state, file)
        new.replace(path)
    except (OSError, RuntimeError) as error:
        why = disk_error(error)
        if why is None:
            raise
        new.unlink(missing_ok=True)
        kept = "the one before it is still there; " if path.exists() else ""
        raise InputError(f"cannot write {path}: {why}; {kept}free space and resume") from error


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote, to the CPU.

    Raises:
        InputError: there is no such file, or it holds something else.
    """
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(f"cannot read the checkpoint {path}: {error.strerror}") from error
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise InputError(f"{path} is no checkpoint, or a damaged one") from error
    return state


def disk_error(error: BaseException | None) -> str | None:
    """What the disk had against a write, which torch may bury under errors of its own, or None."""
    while error is not None:
        if isinstance(error, OSError):
            return error.strerror or str(error)
        if isinstance(error, RuntimeError) and "iostream error" in str(error):  # of a file that torch opened
            return "writing failed; is the disk full?"
        error = error.__context__
    return None


def random_state(model: nn.Module, loader: Iterable[Any]) -> dict[str, Any]:
    """The random streams training draws from: torch's on each device, Python's, NumPy's, the loader's."""
    state = {
        "torch": {str(device): value for device, value in capture(devices_of(model))},
        "python": random.getstate(),
        "loader": [generator.get_state() for generator in _generators(loader)],
    }
    if "numpy" in sys.modules:  # else nobody can have drawn from it
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        state["numpy"] = (kind, keys.tolist(), *rest)  # plain values load without unpickling code
    return state


def set_random_state(state: dict[str, Any], loader: Iterable[Any]) -> None:
    """Put each stream where `random_state` found it."""
    restore([(torch.device(name), value) for name, value in state["torch"].items()])
    random.setstate(state["python"])
    for generator, value in zip(_generators(loader), state["loader"], strict=True):
        generator.set_state(value)
    if "numpy" in state:
        sys.modules["numpy"].random.set_state(state["numpy"])


def _generators(loader: Iterable[Any]) -> list[Generator]:
    if not isinstance(loader, DataLoader):
        return []
    found = [loader.generator]
    if isinstance(loader.sampler, RandomSampler | SubsetRandomSampler | WeightedRandomSampler):
        found.append(loader.sampler.generator)
    return [generator for generator in found if generator is not None]
