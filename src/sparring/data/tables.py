"""Files of text as tables. Every row keeps its number, so that an error can say where it is."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from sparring.data.wording import listed, shown
from sparring.errors import InputError

Row = tuple[int, list[str]]
"""The number of a row's first line, from 1, and its fields."""

KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True)
class Table:
    """Named columns of equal length.

    Attributes:
        source: the file or the data set.
        columns: values by column name; None is a missing value.
        rows: each row's number, from 1.
        unit: what `rows` counts: "line" or "row".
        names: of a column's integers, by number, where the source names them.
    """

    source: str
    columns: dict[str, list[Any]]
    rows: list[int]
    unit: str = "row"
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def where(self, index: int) -> str:
        """The place of a row, for messages."""
        return f"{self.source}, {self.unit} {self.rows[index]}"


def read_csv(path: Path) -> Table:
    """Comma-separated values after a line of column names; quoted fields may have commas and line breaks."""
    rows = _quoted_rows(path, decoded(path), ",")
    return _table(path, rows, "put double quotes around a text that has commas in it")


def read_tsv(path: Path) -> Table:
    """Tab-separated values after a line of column names.

    Some writers quote fields as in csv. Others, GLUE's among them, write quotes as plain text; read as csv,
    such a file loses rows. So quotes are csv's where all in the file are around a field or doubled inside
    one, else text. A quoted field has tabs and line breaks only where rows are of unequal length without it.
    """
    text = decoded(path)
    lines = [(number, line.split("\t")) for number, line in enumerate(text.split("\n"), 1) if line]
    one_line_each = len({len(fields) for _, fields in lines}) <= 1
    quoted = _QUOTED_IN_LINE if one_line_each else _QUOTED
    as_csv = '"' in text and '"' not in quoted.sub("", text)
    rows = _quoted_rows(path, text, "\t") if as_csv else iter(lines)
    return _table(path, rows, "a tab is missing, or a text has one in it")


_QUOTED_IN_LINE = re.compile(r'(?<![^\t\n])"[^"\t\n]*(?:""[^"\t\n]*)*"(?![^\t\n])')
_QUOTED = re.compile(r'(?<![^\t\n])"[^"]*(?:""[^"]*)*"(?![^\t\n])')


def read_json(path: Path) -> Table:
    """One object a line, or one array of objects; a key that a row lacks is a missing value."""
    text = decoded(path)
    if text.lstrip().startswith("["):
        items = _parsed(path, text, 1)
        return _from_objects(path, list(enumerate(items, 1)), "row")
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return _from_objects(path, [(number, _parsed(path, line, number)) for number, line in lines], "line")


def decoded(path: Path) -> str:
    r"""The file's text, UTF-8 with or without a byte order mark, with \n for every line break."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Without a mark the codec counts from the start of the file; with one, from behind it.
        at = error.start + len(content) - len(error.object)
        line = content.count(b"\n", 0, at) + 1
        what = f"byte 0x{content[at]:02x} at offset {at} isn't UTF-8; save the file as UTF-8"
        raise InputError(f"{path}, line {line}: {what}") from None
    if not text.strip():
        raise InputError(f"{path} is empty: it needs column names and rows")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _quoted_rows(path: Path, text: str, delimiter: str) -> Iterator[Row]:
    reader = csv.reader(StringIO(text), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"{path}, line {line}: {_broken(str(error))}") from None
        if fields:  # a blank line has none
            yield line, fields


def _broken(error: str) -> str:
    if "unexpected end of data" in error:
        return "a quote that starts a field is never closed: close it, or double the quotes inside a field"
    if "expected after" in error:
        return "text follows a closing quote: double the quotes inside a field"
    if "field limit" in error:
        return "a field is longer than 131,072 characters: close its quote, or use json lines for long texts"
    return f"broken row ({error})"


def _table(path: Path, rows: Iterator[Row], hint: str) -> Table:
    first, header = next(rows)
    header = [name.strip() for name in header]
    named = [name for name in header if name]  # pandas writes its index under no name
    if doubled := [name for name in named if named.count(name) > 1]:
        raise InputError(f"{path}, line {first}: two columns have the name {shown(doubled[0])}; rename one")
    lines, body = [], []
    for line, fields in rows:
        if len(fields) != len(header):
            found = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
            names = f"{len(header)} ({listed(header)})"
            raise InputError(f"{path}, line {line}: {found} where the first line has {names}; {hint}")
        lines.append(line)
        body.append(fields)
    if not body:
        raise InputError(f"{path} has a first line with the column names {listed(header)}, but no rows")
    columns = {name: [fields[i] for fields in body] for i, name in enumerate(header) if name}
    return Table(str(path), columns, lines, "line")


def _parsed(path: Path, text: str, line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {line + error.lineno - 1}, column {error.colno}: not valid JSON ({error.msg}); "
            f"write one object a line, or one array of objects"
        ) from None


def _from_objects(path: Path, items: list[tuple[int, Any]], unit: str) -> Table:
    if not items:
        raise InputError(f"{path} has no rows")
    for number, item in items:
        if not isinstance(item, dict):
            raise InputError(
                f'{path}, {unit} {number}: {kind(item)}, not an object such as {{"text": ..., "label": ...}}'
            )
    names = dict.fromkeys(name for _, item in items for name in item)
    columns = {name: [item.get(name) for _, item in items] for name in names}
    return Table(str(path), columns, [number for number, _ in items], unit)


def kind(value: object) -> str:
    """What a value is, for messages."""
    return "nothing" if value is None else KINDS.get(type(value), f"a {type(value).__name__}")
