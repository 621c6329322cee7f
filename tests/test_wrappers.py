"""Wrappers say when a method plays, by optimizer steps; they compose with any method, and with each other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sparring import FGM, L2, PGD, Delayed, Every, FreeLB, InputError, Method, Passes, Plain, Weight
from sparring.game import Game
from tests import tiny
from tests.tiny import assert_close


class Marked(Plain):
    """Plain training that notes in which optimizer steps it plays."""

    def __init__(self, **common) -> None:
        super().__init__(**common)
        self.played: list[int] = []
        self.begun: dict[str, int] = {}
        self.stepped = 0

    def play(self, game: Game) -> Tensor:
        self.played.append(game.step)
        return super().play(game)

    def begin(self, **schedule: int) -> None:
        self.begun = schedule

    def after_step(self, *_) -> None:
        self.stepped += 1

    def param_groups(self):
        return [{"params": [], "lr": 0.5}]


def played(wrap, *, steps: int = 6, parts: int = 1) -> list[int]:
    marked = Marked()
    method, model = wrap(marked), tiny.bag()
    for _ in range(steps * parts):
        method(model, tiny.batch(), weight=1 / parts)
    assert marked.read_figures()["adv/loss_clean"] > 0
    return marked.played


@pytest.mark.parametrize(
    ("wrap", "steps"),
    [
        (lambda method: Delayed(method, 0), [0, 1, 2, 3, 4, 5]),
        (lambda method: Delayed(method, 4), [4, 5]),
        (lambda method: Delayed(method, 9), []),
        (lambda method: Every(method, 1), [0, 1, 2, 3, 4, 5]),
        (lambda method: Every(method, 2), [0, 2, 4]),
        (lambda method: Every(method, 4), [0, 4]),
        (lambda method: Every(Delayed(method, 3), 2), [4]),
        (lambda method: Delayed(Every(method, 2), 2), [2, 4]),
        (lambda method: Every(Every(method, 2), 3), [0]),
    ],
)
def test_a_wrapped_method_plays_in_its_steps(wrap, steps):
    assert played(wrap) == steps


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_steps_are_the_optimizers_also_under_accumulation(parts):
    assert played(lambda method: Every(Delayed(method, 2), 2), parts=parts) == [2] * parts + [4] * parts


@pytest.mark.parametrize("method", [FGM(epsilon=0.5), PGD(ball=L2(0.5)), FreeLB(), FGM(site=Weight())])
def test_until_then_the_gradient_is_plain_trainings_bit_for_bit_and_then_the_methods(method):
    """zhuchen03/FreeLB#8: trainings that diverge where the attack sets in at once."""
    delayed, model = Delayed(method, 1), tiny.bert(dropout=0.2)

    def gradients(playing: Method) -> dict[str, Tensor]:
        model.zero_grad()
        torch.manual_seed(1)
        playing(model, tiny.batch())
        return tiny.gradients(model)

    plain = gradients(Plain())
    assert_close(gradients(delayed), plain, tolerance=0.0)
    method.calls = delayed.calls  # whose random numbers are the wrapper's
    assert_close(gradients(delayed), gradients(method), tolerance=0.0)
    assert any((grad - plain[name]).abs().max() > 1e-3 for name, grad in tiny.gradients(model).items())


def test_the_self_check_is_made_on_the_first_batch_also_before_the_method_plays():
    with pytest.raises(InputError, match=r"did you mean 'bert\.pooler\.dense\.bias'"):
        Delayed(FGM(site=Weight("bert.pooler.bias")), 100)(tiny.bert(), tiny.batch())


def test_a_wrapper_has_its_methods_settings_and_cost():
    method = FreeLB(steps=2, site=Weight(), unit=0.5, dropout="fresh", seed=3, forward=tiny.Bag.__call__)
    wrapper = Every(Delayed(method, 2), 3)
    for name in ("site", "unit", "dropout", "seed", "call", "properties", "passes", "replays"):
        assert getattr(wrapper, name) == getattr(method, name)
    assert wrapper.passes == Passes(full=2)


def test_a_wrapper_hands_on_what_a_loop_tells_the_method():
    marked = Marked()
    wrapper = Every(Delayed(marked, 2), 3)
    wrapper.begin(total_steps=10, steps_per_epoch=5)
    wrapper.after_step(None, (), {})
    assert marked.begun == {"total_steps": 10, "steps_per_epoch": 5}
    assert marked.stepped == 1
    assert wrapper.param_groups() == marked.param_groups()


def test_replays_are_the_methods():
    marked = Marked()
    marked.replays = 3
    assert Every(marked, 2).replays == 3


def test_figures_are_of_both_kinds_of_step():
    method, model = Every(FGM(epsilon=0.5, unit=1.0), 2), tiny.bag(dropout=0.0)
    model_loss = model(**tiny.batch())["loss"].item()
    for _ in range(2):
        method(model, tiny.batch())
    figures = method.read_figures()
    assert_close(figures["adv/loss_clean"], model_loss)
    assert_close(figures["adv/delta_norm"], 0.5)  # a mean over the steps that have one
    assert figures["adv/loss_adv"] > model_loss


def test_a_wrapper_describes_itself_and_its_method():
    method = Every(Delayed(Plain(), 3), every=2)
    assert method.describe() == f"Every(Delayed({Plain().describe()}, start_step=3), every=2)"
    method(tiny.bag(), tiny.batch())
    status = f"{method.describe()} on words; 1 unit = {method.unit:.4g}; passes per batch: 1 full"
    assert method.status() == status


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (lambda: Delayed(Plain(), -1), "start_step is -1, but must be 0 or more"),
        (lambda: Every(Plain(), 0), "every is 0, but must be 1 or more"),
    ],
)
def test_impossible_arguments_are_refused(wrap, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        wrap()
