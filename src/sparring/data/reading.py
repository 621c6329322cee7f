"""Read labelled texts from a file, a folder or the hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparring.data import hub
from sparring.data.columns import find_columns
from sparring.data.parquet import read_parquet
from sparring.data.records import Examples, Label
from sparring.data.tables import Table, kind, read_csv, read_json, read_tsv
from sparring.data.wording import missing, shown
from sparring.errors import InputError

READERS: dict[str, Callable[[Path], Table]] = {
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".jsonl": read_json,
    ".json": read_json,
    ".parquet": read_parquet,
}


def read(
    path_or_name: str | Path,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    split: str | None = None,
    require_labels: bool = True,
) -> Examples:
    """Texts or text pairs and their labels, in order.

    Args:
        path_or_name: a .csv, .tsv, .jsonl, .json or .parquet file whose columns have names; a folder laid out
            as a hub data set; or a hub data set's name, `name:configuration` where it has several.
        text: the text's column; found by its usual names where None (`columns.TEXTS`, `columns.PAIRS`).
        pair: the second text's column.
        label: the column of the labels, integers or strings; found like the text's (`columns.LABELS`).
        split: of a folder or a hub data set; where None, the only one or "train".
        require_labels: where False, data without labels or with some missing has `labels=None`.

    Raises:
        InputError: the data can't be read, or a text or label is missing or of the wrong kind; it says where.
    """
    table = _table(path_or_name, split)
    columns = find_columns(table, text=text, pair=pair, label=label, require_labels=require_labels)
    labels = None if columns.label is None else [_label(value) for value in table.columns[columns.label]]
    if labels is not None and columns.label is not None and None in labels:
        if require_labels:
            raise InputError(_bad_label(table, columns.label, labels.index(None)))
        labels = None
    return Examples(
        texts=_texts(table, columns.text),
        pairs=None if columns.pair is None else _texts(table, columns.pair),
        labels=None if labels is None else [label for label in labels if label is not None],
        source=table.source,
        rows=table.rows,
        unit=table.unit,
        columns={role: column for role, column in vars(columns).items() if column is not None},
        label_names=None if labels is None or columns.label is None else table.names.get(columns.label),
    )


def splits(path_or_name: str | Path) -> tuple[str, ...]:
    """The splits that a hub data set or a folder has; none for a file.

    Raises:
        InputError: there is no such file, folder or data set.
    """
    path = Path(path_or_name).expanduser()
    return () if _is_file(path) else hub.splits(str(path))


def _table(path_or_name: str | Path, split: str | None) -> Table:
    path = Path(path_or_name).expanduser()
    if not _is_file(path):
        return hub.load(str(path), split)
    if split is not None:
        raise InputError(f"{path} is one file and has no split {shown(split)}: give the file that holds it")
    if path.suffix.lower() not in READERS:
        *most, last = READERS
        what = path.suffix or "a file without a suffix"
        raise InputError(f"{path}: {what} isn't read; save it as {', '.join(most)} or {last}")
    return READERS[path.suffix.lower()](path)


def _is_file(path: Path) -> bool:
    """Whether this is a file; else it is a folder, or no path but maybe the name of a data set."""
    if path.exists():
        return not path.is_dir()
    if path.suffix.lower() in {*READERS, ".txt"} or not hub.is_name(str(path)):
        raise InputError(missing(path))
    return False


def _texts(table: Table, column: str) -> list[str]:
    texts = table.columns[column]
    for i, text in enumerate(texts):
        if text is None or (isinstance(text, str) and not text.strip()):
            raise InputError(f"{table.where(i)}: {shown(column)} is empty; give it a text or remove the row")
        if not isinstance(text, str):
            what = f"{kind(text)} ({shown(text)}), not text"
            raise InputError(f"{table.where(i)}: {shown(column)} is {what}; name another column")
        if not _encodable(text):
            what = "has half a surrogate pair, as of an emoji cut in two"
            raise InputError(f"{table.where(i)}: {shown(column)} {what}; repair the text or remove the row")
    return texts


def _encodable(text: str) -> bool:
    """Whether the text is valid Unicode, which escapes in JSON needn't make."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _label(value: Any) -> Label | None:
    """A label as found, None if there is none. White space around it, and the .0 of a number, don't count."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) else None


def _bad_label(table: Table, column: str, index: int) -> str:
    value, where = table.columns[column][index], f"{table.where(index)}: {shown(column)}"
    if value is None or str(value).strip() in {"", "nan"}:  # pandas' missing value is NaN
        return f"{where} is empty; give the row a label or remove it"
    return f"{where} is {kind(value)} ({shown(value)}); a label is an integer or a string"
