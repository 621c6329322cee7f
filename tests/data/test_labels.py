from __future__ import annotations

import pytest

from sparring.data import Examples, LabelSet
from sparring.errors import InputError


def examples(*labels: int | str, names: tuple[str, ...] | None = None) -> Examples:
    return Examples(["a"] * len(labels), labels=list(labels), source="t.csv", unit="line", label_names=names)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ((10, 9, 9, -1), ("-1", "9", "10")),
        (("10", "9", "2.5"), ("2.5", "9", "10")),
        (("pos", "neg", "Neutral"), ("Neutral", "neg", "pos")),
        (("10", "9", "x"), ("10", "9", "x")),
        ((1, "1", 2), ("1", "2")),
    ],
)
def test_labels_are_sorted_by_number_or_by_name(labels, names) -> None:
    assert LabelSet.of(examples(*labels)).names == names


def test_labels_are_sorted_whatever_the_order_of_the_rows() -> None:
    assert LabelSet.of(examples("b", "a", "c")) == LabelSet.of(examples("c", "c", "b", "a"))


def test_names_of_the_source_are_kept_in_its_order() -> None:
    labels = LabelSet.of(examples(1, 0, names=("pos", "neg", "none")))
    assert labels.names == ("pos", "neg", "none")
    assert labels.encode(examples(1, 0, names=("pos", "neg", "none"))) == [1, 0]


def test_ids_and_names_are_each_other_s_inverse() -> None:
    labels = LabelSet(("neg", "pos"))
    assert labels.id2label == {0: "neg", 1: "pos"}
    assert labels.label2id == {"neg": 0, "pos": 1}
    assert len(labels) == 2
    assert LabelSet.from_config(labels.id2label) == labels


def test_a_configuration_is_read_with_numbers_in_any_form_and_order() -> None:
    assert LabelSet.from_config({"10": "k", **{str(i): f"{i}" for i in range(10)}}).names[-1] == "k"
    assert LabelSet.from_config({1: "b", 0: "a"}).names == ("a", "b")
    with pytest.raises(InputError, match=r"from 0 without a gap, but has '0', '2'"):
        LabelSet.from_config({0: "a", 2: "b"})


def test_one_class_is_refused() -> None:
    with pytest.raises(InputError, match=r"t\.csv has one class only \('pos'\): a classifier needs two"):
        LabelSet.of(examples("pos", "pos"))
    with pytest.raises(InputError, match="one class only"):
        LabelSet.of(examples(1, 1, names=("neg", "pos")))


def test_numbers_and_their_strings_are_the_same_label() -> None:
    labels = LabelSet.of(examples("0", "1", "2"))
    assert labels.encode(examples(2, "0", 1)) == [2, 0, 1]


def test_default_names_are_known_by_their_number() -> None:
    labels = LabelSet.from_config({0: "LABEL_0", 1: "LABEL_1"})
    assert labels.encode(examples(1, "0", "LABEL_1")) == [1, 0, 1]


def test_numbers_are_known_by_the_names_of_their_source() -> None:
    labels = LabelSet.from_config({0: "POSITIVE", 1: "NEGATIVE"})
    assert labels.encode(examples(0, 1, names=("negative", "positive"))) == [1, 0]


def test_default_names_are_known_by_number_though_the_source_has_names() -> None:
    labels = LabelSet.from_config({0: "LABEL_0", 1: "LABEL_1"})
    assert labels.encode(examples(0, 1, names=("negative", "positive"))) == [0, 1]


def test_case_matters_only_between_names() -> None:
    assert LabelSet(("NEGATIVE", "POSITIVE")).encode(examples("positive", "Negative")) == [1, 0]
    assert LabelSet(("a", "A")).encode(examples("A", "a")) == [1, 0]
    with pytest.raises(InputError, match="know the label 'ß'"):
        LabelSet(("SS", "ss")).encode(examples("ß"))


def test_a_number_is_no_id_of_a_model_with_names() -> None:
    """Which it means can't be known: MNLI's 0 is entailment, and the first by name is contradiction."""
    with pytest.raises(InputError, match="doesn't know the label '0'"):
        LabelSet(("contradiction", "entailment", "neutral")).encode(examples(0, 1, 2))


def test_an_unknown_label_is_named_with_its_place_and_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        LabelSet(("entailment", "neutral")).encode(examples("neutral", "entailement"))
    assert str(caught.value) == (
        "t.csv, line 2: the model doesn't know the label 'entailement'; it knows 'entailment', 'neutral'; "
        "did you mean 'entailment'?"
    )
    with pytest.raises(InputError, match="it knows 'neg', 'pos'; rename it or drop the row"):
        LabelSet(("neg", "pos")).encode(examples("maybe"))


def test_examples_without_labels_are_refused() -> None:
    with pytest.raises(InputError, match="has no labels"):
        LabelSet(("neg", "pos")).encode(Examples(["a"]))
    with pytest.raises(InputError, match="has no labels"):
        LabelSet.of(Examples(["a"]))
