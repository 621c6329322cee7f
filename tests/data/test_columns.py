from __future__ import annotations

import pytest

from sparring.data.columns import Columns, find_columns
from sparring.data.tables import Table
from sparring.errors import InputError


def table(*names: str, unit: str = "line") -> Table:
    return Table("t.csv", {name: ["x"] for name in names}, [2], unit)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("text", "label"), ("text", None, "label")),
        (("Text", "Sentiment"), ("Text", None, "Sentiment")),
        (("idx", "sentence", "LABELS"), ("sentence", None, "LABELS")),
        (("review", "class"), ("review", None, "class")),
        (("content", "category"), ("content", None, "category")),
        (("premise", "hypothesis", "label"), ("premise", "hypothesis", "label")),
        (("index", "sentence1", "sentence2", "gold_label"), ("sentence1", "sentence2", "gold_label")),
        (("question1", "question2", "target"), ("question1", "question2", "target")),
        (("question", "sentence", "label"), ("question", "sentence", "label")),
        (("text_a", "text_b", "label"), ("text_a", "text_b", "label")),
        (("qid", "text_a", "label"), ("text_a", None, "label")),
        (("TEXT", "text", "label"), ("text", None, "label")),
    ],
)
def test_usual_names_are_found(names, expected) -> None:
    assert find_columns(table(*names)) == Columns(*expected)


def test_columns_can_be_named() -> None:
    mrpc = table("Quality", "#1 String", "#2 String")
    assert find_columns(mrpc, text="#1 string", pair="#2 String", label="quality") == Columns(
        "#1 String", "#2 String", "Quality"
    )


def test_who_names_the_text_gets_no_pair() -> None:
    assert find_columns(table("premise", "hypothesis", "label"), text="hypothesis").pair is None


def test_labels_are_optional_where_not_required() -> None:
    assert find_columns(table("text"), require_labels=False).label is None
    assert find_columns(table("text", "label"), require_labels=False).label == "label"


def refusal(table: Table, **given) -> str:
    with pytest.raises(InputError) as caught:
        find_columns(table, **given)
    return str(caught.value)


def test_a_named_column_that_is_not_there_is_refused_with_the_nearest() -> None:
    message = refusal(table("text", "stars"), label="star")
    assert message == "t.csv has no column 'star': its columns are 'text', 'stars'; did you mean 'stars'?"
    assert "no column 'b'" in refusal(table("a", "label"), text="a", pair="b")
    assert "no column 'stars'" in refusal(table("text"), label="stars", require_labels=False)


def test_columns_that_are_not_found_are_asked_for() -> None:
    message = refusal(table("a film", "0"))
    assert message.startswith("t.csv has no column that looks like the text (text, sentence, ")
    assert message.endswith(
        "its columns are 'a film', '0'; the first line must name them, or say which it is (text=...)"
    )
    message = refusal(table("text", "stars", unit="row"))
    assert "looks like the label (label, labels, " in message
    assert message.endswith("its columns are 'text', 'stars'; rename one, or say which it is (label=...)")


def test_a_pair_without_a_text_is_refused() -> None:
    assert refusal(table("premise", "hypothesis"), pair="hypothesis").endswith("give both text and pair")
