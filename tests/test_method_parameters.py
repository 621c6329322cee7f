"""Methods with parameters of their own, or with a teacher, in the loop's optimizer."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from sparring import FGM, PGD, Delayed, Every, FreeLB, InputError, Method, Passes, Plain
from sparring.game import Game
from tests import tiny
from tests.reference.training import saved_and_loaded
from tests.tiny import assert_close


class Learned(Method):
    """It has an adversary with weights of its own: a direction per dimension."""

    def __init__(self, **common) -> None:
        super().__init__(**common)
        self.direction = nn.Parameter(torch.ones(8, dtype=torch.float64))

    def play(self, game: Game) -> Tensor:
        loss = game.loss(game.support() * self.direction)
        game.backward(loss)
        return loss

    @property
    def passes(self) -> Passes:
        return Passes(full=1)

    def param_groups(self):
        return [{"params": [self.direction], "lr": 0.5}]


def train(method: Method, groups: list, steps: int = 3, parts: int = 1) -> None:
    model = tiny.bag()
    optimizer = torch.optim.SGD([{"params": model.parameters()}, *groups], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(parts):
            method(model, tiny.batch(), weight=1 / parts)
        optimizer.step()


@pytest.mark.parametrize("parts", [1, 2])
def test_own_parameters_in_no_optimizer_are_an_error_after_the_first_step(parts):
    method = Learned()
    with pytest.raises(
        InputError, match=r"Learned's parameters are in no optimizer: add \*method.param_groups"
    ):
        train(method, [], parts=parts)
    assert method.steps_done == 1 + 1 / parts


@pytest.mark.parametrize("parts", [1, 2])
def test_own_parameters_in_the_optimizer_are_trained_there(parts):
    method = Learned()
    train(method, method.param_groups(), parts=parts)
    assert (method.direction != 1).all()


def test_own_parameters_that_dont_play_yet_are_no_error():
    method = Delayed(Learned(), 3)
    train(method, method.param_groups(), steps=6)
    assert (method.method.direction != 1).all()


def test_own_parameters_that_dont_play_yet_are_an_error_once_they_do():
    with pytest.raises(InputError, match="Delayed's parameters are in no optimizer"):
        train(Delayed(Learned(), 3), [], steps=6)


def test_own_parameters_are_state():
    method = Learned()
    train(method, method.param_groups())
    other = Learned()
    other.load_state_dict(saved_and_loaded(method.state_dict()))
    assert torch.equal(other.direction, method.direction)


class Taught(Method):
    """It has a teacher, the running mean of the weights."""

    def __init__(self, model: nn.Module, **common) -> None:
        super().__init__(**common)
        self.student = [model]  # a list, so that it is no submodule
        self.teacher = copy.deepcopy(model)

    def play(self, game: Game) -> Tensor:
        loss = game.loss()
        game.backward(loss)
        return loss

    @property
    def passes(self) -> Passes:
        return Passes(full=1)

    @torch.no_grad()
    def after_step(self, *_) -> None:
        for mean, now in zip(self.teacher.parameters(), self.student[0].parameters(), strict=True):
            mean.lerp_(now, 0.5)


@pytest.mark.parametrize("wrap", [lambda method: method, lambda method: Every(Delayed(method, 1), 2)])
def test_a_teacher_follows_each_optimizer_step_and_is_state(wrap):
    model = tiny.bag()
    taught = Taught(model)
    method = wrap(taught)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_post_hook(method.after_step)
    wanted = model.head.weight.detach().clone()
    for i in range(3):
        optimizer.zero_grad()
        for _ in range(2):
            method(model, tiny.batch(seed=i), weight=0.5)
        optimizer.step()
        wanted = (wanted + model.head.weight.detach()) / 2
    assert_close(taught.teacher.head.weight.detach(), wanted)
    other = Taught(tiny.bag(seed=1))
    wrap(other).load_state_dict(saved_and_loaded(method.state_dict()))
    assert torch.equal(other.teacher.head.weight, taught.teacher.head.weight)


@pytest.mark.parametrize("method", [Plain(), FGM(), PGD(), FreeLB()])
def test_most_methods_have_neither(method):
    assert method.param_groups() == []
    assert method.replays == 1
    method.begin(total_steps=10, steps_per_epoch=5)
    method.after_step(None, (), {})
    assert method.steps_done == 0
