"""An evaluation's numbers are what they are said to be."""

from __future__ import annotations

import json

import pytest
import torch

from sparring import InputError
from sparring.attacks import EmbeddingPGD
from sparring.evaluation import Evaluation, attacked_accuracy, by_length, evaluate
from tests.attacks.linear import mean, part
from tests.evaluation.models import Table, setting
from tests.tiny import assert_close

RADII = [0.1, 0.3, 0.6]
ATTACK = {"steps": 5, "unit": 1.0}


def split(batch: dict, groups: list[list[int]]) -> list[dict]:
    return [part(batch, rows) for rows in groups]


# -- the numbers -------------------------------------------------------------------------------------------


def test_accuracies_are_those_of_the_attack():
    model, batch = setting()
    evaluation = evaluate(model, [batch], attack=EmbeddingPGD(**ATTACK), radii=RADII)
    assert evaluation.examples == 10
    assert evaluation.accuracy == 0.8
    assert [point.radius for point in evaluation.under_attack] == [0.0, *RADII]
    assert evaluation.under_attack[0].accuracy == 0.8
    for point in evaluation.under_attack[1:]:
        found = EmbeddingPGD(point.radius, **ATTACK)(model, batch)
        assert point.accuracy == found.survived.double().mean().item()
        assert_close(point.class_shares, tuple((found.attacked == i).double().mean().item() for i in (0, 1)))
    accuracies = [point.accuracy for point in evaluation.under_attack]
    assert accuracies == sorted(accuracies, reverse=True)
    assert len(set(accuracies)) > 2
    assert evaluation.warnings == ()


def test_the_mean_loss_is_that_of_the_strongest_points():
    model, batch = setting()
    attack = EmbeddingPGD(**ATTACK)
    evaluation = evaluate(model, [batch], attack=attack, radii=RADII)
    for point, found in zip(evaluation.under_attack, attack.sweep(model, batch, [0, *RADII]), strict=True):
        assert_close(point.loss, found.loss.mean().item())


def test_noise_counts_what_was_right_before():
    model, batch = setting()
    evaluation = evaluate(model, [batch], attack=EmbeddingPGD(**ATTACK), radii=[0.1, 100.0])
    attack = EmbeddingPGD(**ATTACK)
    right = attack(model, batch).clean == batch["labels"]
    for point in evaluation.under_attack:
        stays = attack.noise(model, batch, point.radius) == batch["labels"]
        assert point.noise_accuracy == (right & stays).double().mean().item()
    assert evaluation.under_attack[-1].noise_accuracy < evaluation.accuracy


def test_chance_level_is_the_share_of_the_most_frequent_class():
    model, batch = setting(classes=4)
    batch["labels"] = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2, 2, 0])
    evaluation = evaluate(model, [batch], radii=[])
    assert evaluation.label_shares == (0.5, 0.2, 0.3, 0.0)
    assert evaluation.majority_share == 0.5
    assert evaluation.uniform_chance == 0.25
    assert evaluation.classes == 4


def test_calibration_error_and_f1_are_those_of_a_table_by_hand():
    # ten texts: four at confidence 0.9, two of them right; six at 0.7, all right
    model = Table([[0.9, 0.1], [0.3, 0.7]])
    ids = torch.tensor([[0, 1]] * 4 + [[1, 0]] * 6)
    labels = torch.tensor([0, 0, 1, 1] + [1] * 6)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    evaluation = evaluate(model, [batch], radii=[])
    assert evaluation.accuracy == 0.8
    assert_close(evaluation.calibration_error, 0.4 * (0.9 - 0.5) + 0.6 * (1.0 - 0.7))
    assert_close(evaluation.macro_f1, (2 * 2 / (4 + 2) + 2 * 6 / (6 + 8)) / 2)


def test_passes_are_counted():
    model, batch = setting()
    attack = EmbeddingPGD(**ATTACK)
    attack.unit_of(model, batch)
    seen = {True: 0, False: 0}

    def count(_module, _args, kwargs):
        seen[torch.is_grad_enabled()] += len(kwargs["input_ids"])

    model.register_forward_pre_hook(count, with_kwargs=True)
    evaluation = evaluate(model, split(batch, [[0, 1, 2], [3, 4, 5, 6, 7, 8, 9]]), attack=attack, radii=RADII)
    assert evaluation.passes["ascent"] == seen[True] > 0
    checks = 2 * 3  # whether the first batch is answered alike twice
    assert evaluation.passes["forward"] == seen[False] - checks


# -- batches, order, rows ------------------------------------------------------------------------------------


def test_batches_and_their_order_change_nothing():
    model, batch = setting()
    hashes = [f"text {i}" for i in range(10)]
    whole = evaluate(model, [batch], attack=EmbeddingPGD(**ATTACK), radii=RADII, hashes=hashes)
    groups = by_length(batch["attention_mask"].sum(1).tolist(), batch_size=3)
    assert [len(rows) for rows in groups] == [3, 3, 3, 1]
    order = [row for rows in groups for row in rows]
    assert order[0] == 0
    assert order != sorted(order)
    again = evaluate(
        model, split(batch, groups), attack=EmbeddingPGD(**ATTACK), radii=RADII, order=order, hashes=hashes
    )
    for name in ("accuracy", "macro_f1", "calibration_error", "label_shares", "passes"):
        assert_close(getattr(again, name), getattr(whole, name))
    for one, other in zip(again.under_attack, whole.under_attack, strict=True):
        assert_close(vars(one), vars(other))
    for one, other in zip(again.rows, whole.rows, strict=True):
        assert_close(one["confidence"], other["confidence"])
        assert one == {**other, "confidence": one["confidence"]}


def test_rows_say_what_became_of_each_example(tmp_path):
    model, batch = setting()
    attack = EmbeddingPGD(**ATTACK)
    evaluation = evaluate(model, [batch], attack=attack, radii=RADII, hashes=[f"text {i}" for i in range(10)])
    evaluation.write_rows(tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    swept = attack.sweep(model, batch, [0, *RADII])
    confidence = swept[0].logits.softmax(1).amax(1)
    assert len(rows) == 10
    for i, row in enumerate(rows):
        assert_close(row.pop("confidence"), confidence[i].item())
        assert row == {
            "index": i,
            "hash": f"text {i}",
            "label": batch["labels"][i].item(),
            "prediction": swept[0].clean[i].item(),
            "under_attack": {f"{found.radius:g}": found.attacked[i].item() for found in swept},
        }
    assert list(rows[0]["under_attack"]) == ["0", "0.1", "0.3", "0.6"]


def test_rows_without_hashes_have_their_number_only():
    model, batch = setting()
    evaluation = evaluate(model, [batch], radii=[])
    assert [row["index"] for row in evaluation.rows] == list(range(10))
    assert not any("hash" in row for row in evaluation.rows)


def test_an_evaluation_survives_json():
    model, batch = setting()
    evaluation = evaluate(model, [batch], radii=RADII)
    kept = json.loads(json.dumps(evaluation.to_dict()))
    assert "rows" not in kept
    assert (kept["majority_share"], kept["uniform_chance"]) == (evaluation.majority_share, 0.5)
    again = Evaluation.from_dict(kept)
    assert again.to_dict() == evaluation.to_dict()
    assert again.under_attack == evaluation.under_attack


def test_the_model_is_left_in_its_mode():
    model, batch = setting()
    model.head.eval()
    stream = torch.get_rng_state()
    evaluate(model, [batch], radii=[0.1])
    assert [module.training for module in model.modules()] == [True, True, False]
    assert torch.equal(torch.get_rng_state(), stream)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_unit_is_one_for_all_batches():
    model, batch = setting()
    evaluation = evaluate(model, split(batch, [[0, 1], [2, 3, 4]]), radii=[0.1])
    words = model.words(batch["input_ids"][:2])[batch["attention_mask"][:2] == 1]
    assert_close(evaluation.unit, words.norm(dim=-1).mean().item())
    assert evaluate(model, [batch], attack=EmbeddingPGD(unit=2.0), radii=[]).unit == 2.0


def test_a_checkpoint_can_be_chosen_by_accuracy_under_attack():
    model, batch = setting()
    measure = attacked_accuracy(EmbeddingPGD(0.3, **ATTACK))
    expected = EmbeddingPGD(0.3, **ATTACK)(model, batch).survived.double().mean().item()
    assert measure(model, split(batch, [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]])) == {"attacked_accuracy": expected}
    assert 0 < expected < 0.8


# -- errors --------------------------------------------------------------------------------------------------


def test_no_examples_are_an_error():
    with pytest.raises(InputError, match="no examples"):
        evaluate(mean(), [])


@pytest.mark.parametrize("order", [[0, 1], [0] * 10, list(range(1, 11))])
def test_an_order_that_is_none_is_an_error(order):
    model, batch = setting()
    with pytest.raises(InputError, match="each of the 10 examples"):
        evaluate(model, [batch], order=order, radii=[])


def test_too_few_hashes_are_an_error():
    model, batch = setting()
    with pytest.raises(InputError, match="1 hashes for 10 examples"):
        evaluate(model, [batch], hashes=["text 0"], radii=[])
