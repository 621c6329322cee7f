"""Data sets of the Hugging Face hub, and folders laid out as one. Only here is datasets imported."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sparring.data.tables import Table
from sparring.data.wording import did_you_mean, listed, shown
from sparring.errors import InputError

T = TypeVar("T")
_NAME = re.compile(r"(\w[\w.-]*(?:/\w[\w.-]*)?)(?::([\w.-]+))?")


def is_name(name: str) -> bool:
    """Whether this can be a hub data set: `name` or `owner/name`, with `:configuration` or without."""
    return _NAME.fullmatch(name) is not None


def splits(name: str) -> tuple[str, ...]:
    """The names of its splits."""
    datasets, (path, configuration) = _datasets(), _parts(name)
    return tuple(_asked(name, lambda: datasets.get_dataset_split_names(path, configuration)))


def load(name: str, split: str | None = None) -> Table:
    """One split: the one asked for, else the only one, else "train".

    Columns of other than plain values (images, lists) are left out.
    """
    datasets, (path, configuration) = _datasets(), _parts(name)
    known = splits(name)
    split = split or (known[0] if len(known) == 1 else "train")
    if split.partition("[")[0] not in known:
        near = did_you_mean(split, known)
        raise InputError(f"{name} has no split {shown(split)}: its splits are {listed(known)}{near}")
    data = _asked(name, lambda: datasets.load_dataset(path, configuration, split=split))
    if not len(data):
        raise InputError(f"{name} ({split}) has no rows")
    columns: dict[str, list[Any]] = {}
    names: dict[str, tuple[str, ...]] = {}
    for key, feature in data.features.items():
        if isinstance(feature, datasets.Value):
            columns[key] = list(data[key])
        elif isinstance(feature, datasets.ClassLabel):
            names[key] = tuple(feature.names)
            columns[key] = [
                None if label == -1 else label for label in data[key]
            ]  # -1 is the hub's "no label"
    return Table(f"{name} ({split})", columns, list(range(1, len(data) + 1)), names=names)


def _parts(name: str) -> tuple[str, str | None]:
    """The data set and its configuration, if one is named."""
    match = None if Path(name).is_dir() else _NAME.fullmatch(name)
    return (name, None) if match is None else (match[1], match[2])


def _datasets() -> Any:
    try:
        import datasets
    except ModuleNotFoundError:
        raise InputError(
            'folders and data sets of the hub need datasets: pip install "sparring[data]"'
        ) from None
    return datasets


def _asked(name: str, question: Callable[[], T]) -> T:
    """The answer of datasets, or its failure in one line."""
    try:
        return question()
    except (OSError, ValueError, RuntimeError, _datasets().exceptions.DatasetsError) as error:
        what = " ".join(str(error.__cause__ or error).split()).rstrip(".")
        place = (
            "the folder"
            if Path(name).is_dir()
            else "there is no such file or folder, and as a data set of the hub it"
        )
        raise InputError(f"{name}: {place} can't be loaded: {what}") from None
