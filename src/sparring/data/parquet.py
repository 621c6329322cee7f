"""Parquet files. The only module that uses pyarrow."""

from __future__ import annotations

from pathlib import Path

from sparring.data.tables import Table
from sparring.errors import InputError


def read_parquet(path: Path) -> Table:
    """All columns of a parquet file."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table
    except ModuleNotFoundError:
        raise InputError(f'{path}: parquet needs pyarrow: pip install "sparring[cli]"') from None
    try:
        columns = read_table(path).to_pydict()
    except (ArrowException, OSError) as error:
        raise InputError(f"{path} can't be read as parquet: {str(error).splitlines()[0]}") from None
    count = max((len(column) for column in columns.values()), default=0)
    if not count:
        raise InputError(f"{path} has no rows")
    return Table(str(path), columns, list(range(1, count + 1)))
