from __future__ import annotations

from pathlib import Path

from sparring.data.wording import did_you_mean, listed, missing, shown


def test_values_are_shown_on_one_short_line() -> None:
    assert shown("a\nb") == "'a\\nb'"
    assert len(shown("x" * 1000)) == 42
    assert shown(3) == "'3'"


def test_long_lists_are_cut() -> None:
    assert listed("abc") == "'a', 'b', 'c'"
    assert listed("abcdefghij").endswith("'h' and 2 more")


def test_the_nearest_name_is_offered_whatever_its_case() -> None:
    assert did_you_mean("Lable", ["text", "LABEL"]) == "; did you mean 'LABEL'?"
    assert did_you_mean("stars", ["text", "label"]) == ""


def test_a_missing_path_is_explained(tmp_path: Path) -> None:
    (tmp_path / "train.csv").touch()
    assert (
        missing(tmp_path / "trian.csv") == f"there is no file {tmp_path}/trian.csv; did you mean 'train.csv'?"
    )
    assert missing(tmp_path / "x") == f"there is no file {tmp_path}/x: check the name"
    assert missing(tmp_path / "d" / "x").endswith(f"d/x: there is no folder {tmp_path}/d")
