from __future__ import annotations

from collections import Counter
from itertools import chain
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sparring.data import Examples, Split, split, subset
from sparring.errors import InputError

words = st.text(st.sampled_from("abc AB"), min_size=1, max_size=4).filter(str.strip)
labelled = st.lists(st.tuples(words, st.sampled_from([0, 1, "x"])), min_size=1, max_size=60)
shares = st.sampled_from([0.0, 0.1, 0.25, 0.4])


def made(rows) -> Examples:
    return Examples([text for text, _ in rows], labels=[label for _, label in rows])


def numbered(*counts: int) -> Examples:
    """That many texts of each label, none twice."""
    rows = [(f"text {label} {i}", label) for label, count in enumerate(counts) for i in range(count)]
    Random(0).shuffle(rows)
    return made(rows)


def parts(found: Split) -> dict[str, Examples]:
    return {"train": found.train, "validation": found.validation, "test": found.test}


def contents(examples: Examples) -> list[tuple[str, int | str]]:
    return sorted(zip(examples.texts, examples.labels, strict=True), key=str)


@given(labelled, shares, shares, st.integers(0, 3))
def test_a_split_is_a_partition_with_duplicates_on_one_side(
    rows, validation: float, test: float, seed: int
) -> None:
    examples = made(rows)
    try:
        found = split(examples, validation=validation, test=test, seed=seed)
    except InputError as error:
        assume("too few texts" not in str(error))
        raise
    kept = [part.rows for part in parts(found).values()]
    assert sorted(chain(*kept)) == list(range(1, len(rows) + 1))
    assert all(part == sorted(part) for part in kept)
    hashes = [set(part.hashes()) for part in parts(found).values()]
    assert len(set.union(*hashes)) == sum(map(len, hashes))
    assert found.counts == {name: len(part) for name, part in parts(found).items()}


@given(labelled, st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_order_of_the_rows_does_not_matter(rows, random: Random, seed: int) -> None:
    shuffled = random.sample(rows, len(rows))
    try:
        one, other = split(made(rows), seed=seed), split(made(shuffled), seed=seed)
    except InputError:
        assume(False)
    assert all(contents(parts(one)[name]) == contents(parts(other)[name]) for name in parts(one))
    assert contents(subset(made(rows), 5, seed)) == contents(subset(made(shuffled), 5, seed))


@settings(max_examples=50)
@given(st.lists(st.integers(1, 80), min_size=1, max_size=6), st.integers(0, 9))
def test_each_label_has_its_share_of_each_part(counts, seed: int) -> None:
    assume(sum(counts) >= 20)
    examples = numbered(*counts)
    found = split(examples, validation=0.2, test=0.1, seed=seed)
    for part, share in ((found.validation, 0.2), (found.test, 0.1)):
        of_label = Counter(part.labels)
        assert abs(len(part) - share * len(examples)) <= 1
        assert all(abs(of_label[label] - share * count) <= 2 for label, count in enumerate(counts))
    assert set(found.train.labels) == set(range(len(counts)))


@given(st.lists(st.integers(1, 80), min_size=1, max_size=6), st.integers(1, 300), st.integers(0, 9))
def test_a_subset_has_each_label_in_proportion(counts, n: int, seed: int) -> None:
    examples = numbered(*counts)
    found = subset(examples, n, seed)
    assert len(found) == min(n, len(examples))
    assert len(set(found.texts)) == len(found)
    assert found.rows == sorted(found.rows)
    share = len(found) / len(examples)
    of_label = Counter(found.labels)
    assert all(abs(of_label[label] - share * count) < 2 for label, count in enumerate(counts))


def test_another_seed_is_another_split() -> None:
    examples = numbered(50, 50)
    assert split(examples, seed=0) == split(examples, seed=0)
    assert split(examples, seed=0).test != split(examples, seed=1).test
    assert subset(examples, 10, seed=0) == subset(examples, 10, seed=0)
    assert subset(examples, 10, seed=0) != subset(examples, 10, seed=1)


def test_a_split_never_changes() -> None:
    """Results of different versions are comparable only where the test data are the same."""
    found = split(Examples([f"text {i}" for i in range(20)], labels=[i % 2 for i in range(20)]), seed=7)
    assert (found.validation.rows, found.test.rows) == ([8, 19], [11, 16])
    assert subset(found.train, 3, seed=7).rows == [6, 9, 18]


@pytest.mark.parametrize("seed", range(12))
def test_a_rare_label_is_trained_on_though_its_text_has_a_common_label_too(seed: int) -> None:
    rows = [*((f"text {i}", "common") for i in range(18)), ("both", "common"), ("both", "rare")]
    assert "rare" in split(made(rows), validation=0.2, test=0.2, seed=seed).train.labels


def test_pairs_are_duplicates_only_as_pairs() -> None:
    pairs = [f"pair {i}" for i in range(20)]
    found = split(Examples(["the same premise"] * 20, pairs=pairs, labels=[0, 1] * 10))
    assert found.counts == {"train": 16, "validation": 2, "test": 2}


def test_texts_without_labels_are_split_too() -> None:
    found = split(Examples([str(i) for i in range(20)]))
    assert found.counts == {"train": 16, "validation": 2, "test": 2}
    assert found.summary() == (
        "train 16, validation 2, test 2 (split by a hash of the text, seed 0, duplicates on one side)"
    )


def test_the_rule_is_printed() -> None:
    assert split(numbered(600, 600), seed=3).summary() == (
        "train 960, validation 120, test 120 (split by a hash of the text, seed 3, each label in proportion, "
        "duplicates on one side)"
    )


def test_a_share_of_nothing_is_an_empty_part() -> None:
    found = split(numbered(5, 5), validation=0, test=0.2)
    assert found.counts == {"train": 8, "validation": 0, "test": 2}
    assert found.validation.texts == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"validation": -0.1}, "validation is -0.1, but must be a share from 0 to below 1"),
        ({"test": 1}, "test is 1, but must be a share from 0 to below 1"),
        ({"validation": 0.5, "test": 0.5}, "validation 0.5 and test 0.5 leave nothing for training"),
    ],
)
def test_impossible_shares_are_refused(given, message: str) -> None:
    with pytest.raises(InputError, match=message):
        split(numbered(20, 20), **given)


def test_too_few_texts_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"the examples has too few texts to split \(test 0, validation 0, train 2\)"
    ):
        split(numbered(1, 1))
    with pytest.raises(InputError, match="it must have at least 1"):
        subset(numbered(2), 0)
