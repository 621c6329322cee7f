"""The data of a command: its flags, and reading it."""

from __future__ import annotations

from dataclasses import dataclass

from sparring.data import Examples, Split, default_data, read, split, splits
from sparring.errors import InputError

VALIDATION, TEST = ("validation", "valid", "dev", "val"), ("test",)  # names of splits that mean the same
FLAG_OF = {"text=...": "--text-column", "label=...": "--label-column"}


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Data.

    Args:
        data: a .csv, .tsv, .jsonl, .json or .parquet file, or the name of a hub data set; Rotten Tomatoes reviews
            where left out.
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

    def parts(self, *, validation: str | None = None, test: str | None = None) -> Split:
        """Training, validation and test data: as given, as the data set has them, else split from the training data.

        Raises:
            InputError: one of them can't be read, or there is too little to split.
        """
        if self.data is None:
            made = default_data()
            given = {"validation": validation, "test": test}
            found = {name: self.read(source) for name, source in given.items() if source is not None}
            return Split(**{"train": made.train, "validation": made.validation, "test": made.test, **found}, rule=made.rule)
        names = splits(self.data)
        train = self.read(self.data, part="train" if "train" in names else None)
        found = {}
        for name, source, aliases in (("validation", validation, VALIDATION), ("test", test, TEST)):
            here = next((alias for alias in aliases if alias in names), None)
            if source is not None:
                found[name] = self.read(source)
            elif here is not None:
                found[name] = self.read(self.data, part=here)
        shares = {name: 0.0 if name in found else 0.1 for name in ("validation", "test")}
        if not any(shares.values()):
            return Split(train=train, **found, rule="as given")
        made = split(train, **shares)
        rest = {"validation": made.validation, "test": made.test} | found
        return Split(train=made.train, **rest, rule=made.rule + "".join(f", {name} as given" for name in found))
