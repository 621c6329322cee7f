"""Which columns of a table hold the text, the second text and the label."""

from __future__ import annotations

from dataclasses import dataclass

from sparring.data.tables import Table
from sparring.data.wording import did_you_mean, listed, shown
from sparring.errors import InputError

PAIRS = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text_a", "text_b"),
)
TEXTS = ("text", "sentence", "review", "content", "question", "text_a")
LABELS = ("label", "labels", "class", "target", "category", "gold_label", "sentiment")


@dataclass(frozen=True)
class Columns:
    """Names of columns; None where there is none."""

    text: str
    pair: str | None
    label: str | None


def find_columns(
    table: Table,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    require_labels: bool = True,
) -> Columns:
    """The columns named, else the first of PAIRS, TEXTS and LABELS that the table has. Case doesn't count.

    Who names the text but no pair gets single texts.

    Raises:
        InputError: a column named isn't there, or none looks like the text or, if required, the label.
    """
    if pair is not None and text is None:
        raise InputError(
            f"the second text's column is given ({shown(pair)}) but not the first's: give both text and pair"
        )
    if text is not None:
        text, pair = _named(table, text), None if pair is None else _named(table, pair)
    else:
        text, pair = _text_of(table)
    return Columns(
        text,
        pair,
        _named(table, label) if label is not None else _label_of(table, require_labels=require_labels),
    )


def _text_of(table: Table) -> tuple[str, str | None]:
    for first, second in PAIRS:
        one, other = _found(table, first), _found(table, second)
        if one is not None and other is not None:
            return one, other
    for name in TEXTS:
        found = _found(table, name)
        if found is not None:
            return found, None
    raise InputError(_none_of(table, "text", TEXTS))


def _label_of(table: Table, *, require_labels: bool) -> str | None:
    for name in LABELS:
        found = _found(table, name)
        if found is not None:
            return found
    if require_labels:
        raise InputError(_none_of(table, "label", LABELS))
    return None


def _found(table: Table, name: str) -> str | None:
    if name in table.columns:
        return name
    return next((column for column in table.columns if column.casefold() == name.casefold()), None)


def _named(table: Table, name: str) -> str:
    found = _found(table, name)
    if found is None:
        near = did_you_mean(name, table.columns)
        raise InputError(
            f"{table.source} has no column {shown(name)}: its columns are {listed(table.columns)}{near}"
        )
    return found


def _none_of(table: Table, role: str, names: tuple[str, ...]) -> str:
    header = "the first line must name them" if table.unit == "line" else "rename one"
    return (
        f"{table.source} has no column that looks like the {role} ({', '.join(names)}): its columns are "
        f"{listed(table.columns)}; {header}, or say which it is ({role}=...)"
    )
