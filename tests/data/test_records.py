from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.data.records import Examples, normalised


def test_hashes_ignore_case_and_white_space_only() -> None:
    one, same, other = Examples(["A  Film\n", "a film", "a, film"]).hashes()
    assert one == same != other
    assert len(one) == 16


def test_hashes_are_the_same_in_every_run() -> None:
    assert Examples(["A Film"]).hashes() == [sha256(b"a film").hexdigest()[:16]]


def test_a_pair_has_another_hash_than_its_texts_joined_or_swapped() -> None:
    texts = ["a b", "a", "a", "b"]
    hashes = [
        *Examples(texts[:1]).hashes(),
        *Examples(["a", "b", "a"], pairs=["b", "a", "c"]).hashes(),
        *Examples(["a"]).hashes(),
    ]
    assert len(set(hashes)) == len(hashes)


@given(st.text(), st.text())
def test_normalised_is_idempotent(text: str, other: str) -> None:
    assert normalised(normalised(text)) == normalised(text)
    assert normalised(f"{text} \t{other}".upper().lower()) == normalised(f" {text}\n{other}".upper().lower())


def test_the_data_hash_sees_texts_pairs_labels_and_order_but_not_the_source() -> None:
    examples = Examples(["a", "b"], pairs=["c", "d"], labels=[0, 1])
    different = [
        Examples(["b", "a"], pairs=["d", "c"], labels=[1, 0]),
        Examples(["A", "b"], pairs=["c", "d"], labels=[0, 1]),
        Examples(["a", "b"], pairs=["c", "e"], labels=[0, 1]),
        Examples(["a", "b"], labels=[0, 1]),
        Examples(["a", "b"], pairs=["c", "d"], labels=[0, 0]),
        Examples(["a", "b"], pairs=["c", "d"]),
    ]
    assert examples.data_hash() not in {other.data_hash() for other in different}
    moved = Examples(["a", "b"], pairs=["c", "d"], labels=[0, 1], source="elsewhere.csv", rows=[7, 9])
    assert moved.data_hash() == examples.data_hash()
    assert len(examples.data_hash()) == 64


def test_selected_examples_keep_their_places() -> None:
    examples = Examples(["a", "b", "c"], ["d", "e", "f"], ["x", "y", "z"], "t.csv", [2, 5, 6], "line")
    selected = examples.select([2, 0])
    assert (selected.texts, selected.pairs, selected.labels) == (["c", "a"], ["f", "d"], ["z", "x"])
    assert selected.where(0) == "t.csv, line 6"


def test_places_are_numbered_where_they_are_not_given() -> None:
    examples = Examples(["a", "b", "c"])
    assert examples.where(1) == "the examples, row 2"
    assert examples.select([2]).where(0) == "the examples, row 3"
    assert examples.select([2]).pairs is examples.select([2]).labels is None


@pytest.mark.parametrize("column", ["pairs", "labels", "rows"])
def test_columns_of_another_length_are_refused(column: str) -> None:
    with pytest.raises(ValueError, match=f"1 {column} for 2 texts"):
        Examples(["a", "b"], **{column: ["c"]})
