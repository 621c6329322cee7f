"""The data of a command: its flags, and reading it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sparring.data import Examples, Split, default_data, read, split, splits
from sparring.errors import InputError

FLAG_OF = {"text=...": "--text-column", "label=...": "--label-column"}
PARTS = {"validation": ("validation", "valid", "dev", "val"), "test": ("test",)}
"""What these parts are called in data sets."""


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Data.

    Args:
        data: a .csv, .tsv, .jsonl, .json or .parquet file, or the name of a hub data set; where left out,
            Rotten Tomatoes reviews.
        text_column: found by its usual names where left out.
        pair_column: of the second text, where there are pairs.
        label_column: found by its usual names where left out.
    """

    data: str | None = None
    text_column: str | None = None
    pair_column: str | None = None
    label_column: str | None = None

    def read(self, source: str, *, part: str | None = None, require_labels: bool = True) -> Examples:
        """The examples of a file, or of one part of a data set.

        Raises:
            InputError: it can't be read.
        """
        try:
            return read(
                source,
                text=self.text_column,
                pair=self.pair_column,
                label=self.label_column,
                split=part,
                require_labels=require_labels,
            )
        except InputError as error:
            message = str(error)
            for argument, flag in FLAG_OF.items():
                message = message.replace(argument, flag)
            raise InputError(message) from None

    def read_test(self, *, part: str | None = None, require_labels: bool = True) -> Examples:
        """A part of the data: the one asked for, else the test data, else, of a file, all of it.

        Raises:
            InputError: it can't be read.
        """
        if self.data is None:
            if part is not None:
                raise InputError(f"--split {part} is of a data set: give one as --data")
            return default_data().test
        here = [name for name in splits(self.data) if name in PARTS["test"]]
        return self.read(self.data, part=part or (here[0] if here else None), require_labels=require_labels)

    def read_split(self, *, validation: str | None = None, test: str | None = None) -> Split:
        """Training, validation and test data: as given, as the data set has them, else split off the former.

        Raises:
            InputError: one of them can't be read, or there is too little to split.
        """
        asked = {"validation": validation, "test": test}
        found: dict[str, Any] = {name: self.read(file) for name, file in asked.items() if file is not None}
        if self.data is None:
            return replace(default_data(), **found)
        names = splits(self.data)
        for part, aliases in PARTS.items():
            here = [name for name in names if name in aliases]
            if part not in found and here:
                found[part] = self.read(self.data, part=here[0])
        train = self.read(self.data, part="train" if "train" in names else None)
        if len(found) == len(PARTS):
            return Split(train=train, **found, rule="as given")
        made = split(train, **{name: 0.0 if name in found else 0.1 for name in PARTS}, seed=0)
        given = "".join(f", {name} data as given" for name in found)
        return replace(made, **found, rule=made.rule + given)
