from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from sklearn.metrics import accuracy_score, f1_score
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, pipeline

from sparring.data import Examples, LabelSet, default_model_path
from sparring.errors import InputError
from sparring.tasks.classification import (
    collator,
    expected_calibration_error,
    features,
    load_model,
    metrics,
    predict,
)

LABELS = LabelSet(("neg", "pos", "none"))
EXAMPLES = Examples(["a b", "c d e f g", "h", "a b c"], labels=["pos", "neg", "none", "neg"])

# -- models ----------------------------------------------------------------------------------------------


def test_a_model_is_loaded_in_float32_with_the_data_s_labels(encoder: Path) -> None:
    half = AutoModelForSequenceClassification.from_pretrained(encoder, dtype=torch.bfloat16)
    half.base_model.save_pretrained(encoder)
    model, tokenizer = load_model(encoder, LABELS)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert not model.training
    assert model.config.id2label == {0: "neg", 1: "pos", 2: "none"}
    assert model.config.label2id == {"neg": 0, "pos": 1, "none": 2}
    assert model.config.problem_type == "single_label_classification"
    assert tokenizer.pad_token_id == model.config.pad_token_id == 0


def test_the_head_is_drawn_from_the_caller_s_random_numbers(encoder: Path) -> None:
    heads = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        heads.append(load_model(encoder, LABELS)[0].classifier.weight)
    assert heads[0].equal(heads[1])
    assert not heads[0].equal(heads[2])


def test_a_saved_model_is_loaded_as_it_was_and_opens_in_a_pipeline(encoder: Path, tmp_path: Path) -> None:
    model, tokenizer = load_model(encoder, LABELS)
    model.save_pretrained(tmp_path / "saved")
    tokenizer.save_pretrained(tmp_path / "saved")
    again, _ = load_model(tmp_path / "saved")
    rows = features(EXAMPLES, tokenizer, max_length=8)
    assert predict(again, rows, collator(tokenizer)).equal(predict(model, rows, collator(tokenizer)))
    assert LabelSet.from_config(again.config.id2label) == LABELS
    answers = pipeline("text-classification", str(tmp_path / "saved"), device="cpu")(EXAMPLES.texts)
    best = predict(model, rows, collator(tokenizer)).argmax(1).tolist()
    assert [answer["label"] for answer in answers] == [LABELS.names[i] for i in best]


def test_the_embedded_encoder_is_loaded_with_its_pooler() -> None:
    model, tokenizer = load_model(default_model_path(), LabelSet(("neg", "pos")))
    weights = load_file(default_model_path() / "model.safetensors")
    assert model.bert.pooler.dense.weight.equal(weights["pooler.dense.weight"])
    rows = features(Examples(["a gripping film", "dull"]), tokenizer, max_length=16)
    assert predict(model, rows, collator(tokenizer)).shape == (2, 2)


# -- features --------------------------------------------------------------------------------------------


def test_features_are_cut_and_not_padded(tokenizer) -> None:
    rows = features(EXAMPLES, tokenizer, max_length=5, labels=LABELS)
    assert rows[0]["input_ids"] == [2, 4, 5, 3]
    assert rows[1]["input_ids"] == [2, 6, 7, 8, 3]
    assert [row["labels"] for row in rows] == [1, 0, 2, 0]
    assert "labels" not in features(EXAMPLES, tokenizer, max_length=5)[0]


def test_pairs_have_both_texts_and_the_longer_is_cut(tokenizer) -> None:
    examples = Examples(["a", "a b c d"], pairs=["b c", "e"])
    rows = features(examples, tokenizer, max_length=6)
    assert rows[0]["input_ids"] == [2, 4, 3, 5, 6, 3]
    assert rows[1]["input_ids"] == [2, 4, 5, 3, 8, 3]


@pytest.mark.parametrize("length", [2, 17])
def test_a_length_that_the_model_cannot_have_is_refused(tokenizer, length: int) -> None:
    with pytest.raises(
        InputError, match=f"max_length is {length}, but for this model must be from 3 to 16 tokens"
    ):
        features(EXAMPLES, tokenizer, max_length=length)


def test_the_least_length_keeps_a_token_of_each_text(tokenizer) -> None:
    pair = Examples(["a b"], pairs=["c d"])
    with pytest.raises(InputError, match="from 5 to 16"):
        features(pair, tokenizer, max_length=4)
    assert features(pair, tokenizer, max_length=5)[0]["input_ids"] == [2, 4, 3, 6, 3]
    assert features(EXAMPLES, tokenizer, max_length=3)[1]["input_ids"] == [2, 6, 3]


def test_an_unknown_label_is_refused(tokenizer) -> None:
    with pytest.raises(InputError, match="the examples, row 1: the model doesn't know the label 'maybe'"):
        features(Examples(["a"], labels=["maybe"]), tokenizer, max_length=5, labels=LABELS)


def test_batches_of_features_are_padded_and_train_a_model(encoder: Path) -> None:
    model, tokenizer = load_model(encoder, LABELS)
    rows = features(EXAMPLES, tokenizer, max_length=16, labels=LABELS)
    first, second = DataLoader(rows, batch_size=2, collate_fn=collator(tokenizer))
    assert first["input_ids"].tolist() == [[2, 4, 5, 3, 0, 0, 0], [2, 6, 7, 8, 9, 10, 3]]
    assert first["attention_mask"].sum(1).tolist() == [4, 7]
    assert second["labels"].tolist() == [2, 0]
    loss = model(**first).loss
    expected = torch.nn.functional.cross_entropy(model(**first).logits, torch.tensor([1, 0]))
    assert loss.allclose(expected)


# -- predictions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_predictions_come_in_the_order_of_the_features(encoder: Path, batch_size: int) -> None:
    torch.manual_seed(0)
    model, tokenizer = load_model(encoder, LABELS)
    texts = [" ".join("abcdefgh"[: 1 + i % 7]) + " h" * (i % 3) for i in range(20)]
    rows = features(Examples(texts, labels=["pos"] * 20), tokenizer, max_length=16, labels=LABELS)
    model.train()
    found = predict(model, rows, collator(tokenizer), batch_size=batch_size)
    assert model.training
    model.eval()
    with torch.no_grad():
        alone = torch.cat([model(**collator(tokenizer)([row])).logits for row in rows])
    assert found.shape == (20, 3)
    assert not found.requires_grad
    torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-6)
    assert (found[0] - found[1]).abs().max() > 0.1


def test_batches_hold_texts_of_like_length_and_no_labels(encoder: Path) -> None:
    model, tokenizer = load_model(encoder, LABELS)
    rows = features(EXAMPLES, tokenizer, max_length=16, labels=LABELS)
    seen = []
    model.register_forward_pre_hook(lambda _model, _args, given: seen.append(dict(given)), with_kwargs=True)
    predict(model, rows, collator(tokenizer), batch_size=2)
    assert [batch["input_ids"].shape for batch in seen] == [(2, 7), (2, 4)]
    assert all("labels" not in batch for batch in seen)


# -- metrics ---------------------------------------------------------------------------------------------

scores = st.floats(-5, 5, width=32)
predictions = st.integers(1, 6).flatmap(
    lambda classes: st.lists(
        st.tuples(st.lists(scores, min_size=classes, max_size=classes), st.integers(0, classes - 1)),
        min_size=1,
    )
)


@given(predictions)
def test_metrics_are_scikit_learn_s(rows) -> None:
    logits, labels = torch.tensor([row for row, _ in rows]), torch.tensor([label for _, label in rows])
    found = metrics(logits, labels)
    best = logits.argmax(1)
    assert found["accuracy"] == pytest.approx(accuracy_score(labels, best))
    assert found["macro_f1"] == pytest.approx(f1_score(labels, best, average="macro"))
    assert found == metrics(logits, labels.tolist())


def binned(confidence: Tensor, right: Tensor, bins: int) -> float:
    """The published formula, bin by bin."""
    total = 0.0
    for m in range(1, bins + 1):
        inside = ((m - 1) / bins < confidence) & (confidence <= m / bins)
        if inside.any():
            gap = right[inside].double().mean() - confidence[inside].mean()
            total += inside.double().mean().item() * gap.abs().item()
    return total


@given(st.lists(st.tuples(st.integers(1, 999), st.booleans()), min_size=1), st.sampled_from([7, 15]))
def test_the_calibration_error_is_the_published_formula(rows, bins: int) -> None:
    confidence = torch.tensor([c / 1000 + 1e-5 for c, _ in rows], dtype=torch.float64)
    right = torch.tensor([r for _, r in rows])
    assert expected_calibration_error(confidence, right, bins) == pytest.approx(
        binned(confidence, right, bins)
    )


def test_the_calibration_error_of_known_cases() -> None:
    sure = torch.tensor([1.0, 1.0, 1.0, 1.0])
    assert expected_calibration_error(sure, torch.tensor([True, True, True, False])) == pytest.approx(0.25)
    assert expected_calibration_error(sure, torch.tensor([True] * 4)) == 0
    half = torch.tensor([0.5, 0.5, 0.9, 0.9], dtype=torch.float64)
    assert expected_calibration_error(half, torch.tensor([True, False, True, False])) == pytest.approx(0.2)
    assert expected_calibration_error(torch.zeros(3), torch.zeros(3, dtype=torch.bool)) == 0


def test_a_confidence_on_a_bin_s_edge_is_in_the_lower_bin() -> None:
    confidence = torch.tensor([0.5, 0.4], dtype=torch.float64)
    right = torch.tensor([True, False])
    assert expected_calibration_error(confidence, right, bins=2) == pytest.approx(abs(0.5 - 0.45))


def test_the_prediction_is_the_largest_logit_though_the_probabilities_tie() -> None:
    assert metrics(torch.tensor([[0.0, 1e-20]]), [1])["accuracy"] == 1


def test_logits_that_are_not_finite_are_wrong() -> None:
    logits = torch.tensor([[math.nan, 0.0], [math.inf, 0.0], [50.0, 0.0], [0.0, 50.0]])
    found = metrics(logits, [0, 0, 0, 1])
    assert found["accuracy"] == 0.5
    assert found["macro_f1"] == pytest.approx((2 * 1 / (1 + 3) + 1) / 2)
    assert found["calibration_error"] == pytest.approx(0)
