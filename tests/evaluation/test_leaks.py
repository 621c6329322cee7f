"""Evaluation texts that are training texts are counted and named."""

from __future__ import annotations

from sparring.evaluation import find_leaks


def test_texts_in_the_training_data_are_found_by_their_row():
    leaks = find_leaks(["a", "b", "c", "b"], {"b", "x"})
    assert leaks.rows == (1, 3)
    assert leaks.count == 2
    assert leaks.examples == 4


def test_no_leak_is_no_warning():
    leaks = find_leaks(["a", "b"], ["c"])
    assert leaks.count == 0
    assert leaks.warning() is None
    assert find_leaks([], ["c"]).warning() is None


def test_the_warning_names_the_first_rows():
    hashes = [str(i) for i in range(10)]
    warning = find_leaks(hashes, iter(hashes[5:])).warning()
    assert "5 of 10 evaluation texts (50.0%)" in warning
    assert "5, 6, 7, ...)" in warning
    assert "5, 6, 7, 8, 9)" in find_leaks(hashes, hashes[5:]).warning(first=5)
    assert "\n" not in warning
