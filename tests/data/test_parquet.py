from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from sparring.data import read
from sparring.errors import InputError


def test_parquet_is_read(tmp_path: Path) -> None:
    labels = pa.array(["neg", "pos", "neg"]).dictionary_encode()  # as pandas writes categories
    write_table(pa.table({"text": ["a", "b", "c"], "label": labels, "id": [1, 2, 3]}), tmp_path / "d.parquet")
    examples = read(tmp_path / "d.parquet")
    assert (examples.texts, examples.labels) == (["a", "b", "c"], ["neg", "pos", "neg"])
    assert examples.where(2) == f"{tmp_path}/d.parquet, row 3"
    with pytest.raises(InputError, match=r"row 1: 'id' is a number \('1'\), not text"):
        read(tmp_path / "d.parquet", text="id")


def test_a_missing_label_is_named(tmp_path: Path) -> None:
    write_table(pa.table({"text": ["a", "b"], "label": [1, None]}), tmp_path / "d.parquet")
    with pytest.raises(InputError, match=r"d\.parquet, row 2: 'label' is empty"):
        read(tmp_path / "d.parquet")


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "d.parquet")
    with pytest.raises(InputError, match="has no rows"):
        read(tmp_path / "d.parquet")


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.parquet").write_text("text,label\na,0\n")
    with pytest.raises(InputError, match=r"d\.parquet can't be read as parquet: \w[^\n]*$"):
        read(tmp_path / "d.parquet")


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r'parquet needs pyarrow: pip install "sparring\[cli\]"'):
        read(tmp_path / "d.parquet")
