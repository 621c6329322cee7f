"""The contract: a method stands where `loss.backward()` stood, whatever the method."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

import sparring
from sparring import (
    FGM,
    FGSM,
    PGD,
    FreeLB,
    Plain,
)
from sparring.game import Game
from tests import tiny
from tests.reference.methods import EVERY
from tests.reference.training import deltas_of
from tests.tiny import Playing, assert_close

DETERMINISTIC = {
    "plain": Plain(),
    "fgm": FGM(),
    "fgm, mean": FGM(weight=0.5, mean=True),
    "fgsm": FGSM(),
    "pgd": PGD(clean_weight=0.5),
    "freelb": FreeLB(start=0.0, clean_weight=0.5),
}


# -- what it leaves behind -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EVERY)
def test_the_loss_comes_back_detached_and_the_gradient_lies_in_grad(kind):
    model = tiny.bert()
    loss = EVERY[kind]()(model, tiny.batch())
    assert loss.shape == ()
    assert not loss.requires_grad
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("kind", EVERY)
def test_the_weights_are_untouched_and_two_calls_accumulate(kind):
    model = tiny.bert()
    before = copy.deepcopy(model.state_dict())
    method = EVERY[kind](seed=1)
    torch.manual_seed(1)
    method(model, tiny.batch())
    once = tiny.gradients(model)
    method.calls = 0  # the same random start
    torch.manual_seed(1)
    method(model, tiny.batch())
    assert_close(tiny.gradients(model), {name: 2 * grad for name, grad in once.items()})
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("dropout", ["same", "fresh"])
@pytest.mark.parametrize("kind", EVERY)
def test_the_global_random_stream_is_where_one_plain_pass_leaves_it(kind, dropout):
    model, batch = tiny.bert(dropout=0.2), tiny.batch()
    torch.manual_seed(1)
    model(**batch)
    wanted = torch.get_rng_state()
    torch.manual_seed(1)
    EVERY[kind](dropout=dropout)(model, batch)
    assert torch.equal(torch.get_rng_state(), wanted)


def test_the_global_random_stream_is_there_also_when_a_later_pass_raises():
    model, batch = tiny.bert(dropout=0.2), tiny.batch()
    torch.manual_seed(1)
    model(**batch)
    wanted = torch.get_rng_state()
    calls = []

    def forward(model, batch):
        calls.append(None)
        if len(calls) == 5:  # three of the probe, a clean one, this one
            raise RuntimeError("out of memory")
        return model(**batch)

    torch.manual_seed(1)
    with pytest.raises(RuntimeError, match="out of memory"):
        FGM(dropout="fresh", forward=forward)(model, batch)
    assert torch.equal(torch.get_rng_state(), wanted)


def test_the_model_is_no_submodule_and_none_of_the_state():
    """Else its weights would be the method's too."""
    method = FreeLB()
    method(tiny.bert(), tiny.batch())
    assert list(method.state_dict()) == ["_extra_state"]
    assert list(method.parameters()) == []
    assert list(method.modules()) == [method]


# -- dropout masks, and its own random numbers ---------------------------------------------------------------


def logits_of_passes(dropout: str) -> list[Tensor]:
    seen = []

    def play(game: Game) -> Tensor:
        seen.extend(game.outputs().logits for _ in range(3))
        return torch.zeros(())

    Playing(play, dropout=dropout)(tiny.bert(dropout=0.2), tiny.batch())
    return seen


def test_by_default_all_passes_share_one_dropout_mask():
    """zhuchen03/FreeLB#14, enricivi/adversarial_training_methods#4."""
    first, second, third = logits_of_passes("same")
    assert torch.equal(first, second)
    assert torch.equal(first, third)


def test_fresh_dropout_draws_a_mask_for_each_pass_and_the_first_is_plain_trainings():
    torch.manual_seed(1)
    plain = tiny.bert(dropout=0.2)(**tiny.batch()).logits
    torch.manual_seed(1)
    passes = logits_of_passes("fresh")
    assert torch.equal(passes[0], plain)
    assert all((a - b).abs().max() > 1e-3 for a, b in [*pairwise(passes), (passes[0], passes[2])])


def test_fresh_masks_come_from_the_methods_own_numbers():
    torch.manual_seed(1)
    passes = logits_of_passes("fresh")
    torch.manual_seed(2)
    others = logits_of_passes("fresh")
    assert not torch.equal(passes[0], others[0])
    assert torch.equal(passes[1], others[1])


def starts(calls: int = 1, *, seed: int = 0, rank: int = 0) -> list[Tensor]:
    method, model = FreeLB(seed=seed), tiny.bag()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparring.method._rank", lambda: rank)
        return [deltas_of(method, model, tiny.batch())[0] for _ in range(calls)]


def test_a_random_start_is_known_by_seed_rank_and_call():
    first, second = starts(2)
    torch.manual_seed(7)  # whatever the global stream
    again = starts(2)
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])
    for other in (second, starts(seed=1)[0], starts(rank=1)[0]):
        assert (first - other).abs().max() > 1e-3


def test_without_processes_the_rank_is_0_and_with_them_torchs(monkeypatch):
    assert sparring.method._rank() == 0
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 3)
    assert sparring.method._rank() == 3


# -- accumulation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("kind", DETERMINISTIC)
def test_micro_batches_give_the_gradient_and_the_figures_of_the_one_big_batch(kind, parts):
    """huggingface/transformers#37766."""
    model, batch = tiny.bert(dropout=0.0), tiny.batch(lengths=(7, 4, 6, 2, 5, 3))
    whole, split = (copy.deepcopy(DETERMINISTIC[kind]) for _ in range(2))
    loss = whole(model, batch)
    wanted = tiny.gradients(model)
    model.zero_grad()
    split.unit = whole.unit
    losses = []
    for rows in torch.arange(6).tensor_split([1, 4][: parts - 1]):  # of unequal size
        micro = {key: value[rows] for key, value in batch.items()}
        losses.append(split(model, micro, weight=len(rows) / 6))
    assert_close(tiny.gradients(model), wanted)
    assert_close(sum(losses), loss)
    assert_close(split.read_figures(), whole.read_figures())


def test_a_loss_weight_of_its_own_weighs_the_loss_and_not_the_step():
    model = tiny.bert(dropout=0.0)
    method = Plain()
    halves = [method(model, tiny.batch(), weight=0.5, loss_weight=share) for share in (0.25, 0.75)]
    loss = model(**tiny.batch()).loss.detach()
    assert_close(halves, [0.25 * loss, 0.75 * loss])
    assert method.steps_done == 1.0
    assert_close(method.read_figures()["adv/loss_clean"], loss.item())


def test_a_game_knows_its_optimizer_step():
    steps = []
    method = Playing(lambda game: torch.tensor(float(steps.append(game.step) or 0)))
    for _ in range(3):
        for _ in range(3):
            method(tiny.bag(), tiny.batch(), weight=1 / 3)
    assert steps == [0, 0, 0, 1, 1, 1, 2, 2, 2]


# -- how the loop calls --------------------------------------------------------------------------------------


def test_a_forward_may_be_the_methods_or_the_calls_own():
    used = []

    def forward(name):
        def run(model, batch):
            used.append(name)
            return model(**batch)["loss"]

        return run

    method = Plain(forward=forward("method's"))
    method(tiny.bag(), tiny.batch())
    assert set(used) == {"method's"}
    used.clear()
    method(tiny.bag(), tiny.batch(), forward=forward("call's"))
    assert set(used) == {"call's"}


@pytest.mark.parametrize("kind", EVERY)
def test_a_loops_backward_is_used_for_what_reaches_the_parameters(kind):
    """As Accelerate's, which scales."""
    model = tiny.bert()
    method, calls = EVERY[kind](), []

    def backward(loss):
        calls.append(loss.detach())
        (2 * loss).backward()

    torch.manual_seed(1)
    loss = method(model, tiny.batch(), backward=backward)
    doubled = tiny.gradients(model)
    model.zero_grad()
    torch.manual_seed(1)
    method.calls = 0
    method(model, tiny.batch())
    assert len(calls) == method.passes.full
    assert_close(sum(calls), loss)
    assert_close(doubled, {name: 2 * grad for name, grad in tiny.gradients(model).items()})


def test_figures_are_means_since_the_last_reading():
    method, model = Plain(), tiny.bag()
    losses = [method(model, tiny.batch(seed=i)).item() for i in range(3)]
    assert_close(method.read_figures(), {"adv/loss_clean": sum(losses) / 3, "adv/skipped": 0.0})
    assert method.read_figures() == {"adv/skipped": 0.0}


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ("", "sparring: Plain("),
        ("logging.basicConfig()", "INFO:sparring:Plain("),
        ("import sparring.method\nlogging.getLogger('sparring').setLevel('WARNING')", ""),
    ],
)
def test_the_status_line_is_seen_once_unless_the_application_logs_otherwise(configured, expected):
    script = (
        f"import logging\n{configured}\nfrom sparring import Plain\nfrom tests.tiny import batch, bert\n"
        "Plain()(bert(), batch())"
    )
    root = Path(__file__).parents[1]
    path = os.pathsep.join([str(root), str(root / "src")])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if "Plain(" in line]
    assert [line[: len(expected)] for line in lines] == [expected] * bool(expected)
