"""The conformance suite sees each kind of mistake: a method with one in it fails the check of that name."""

from __future__ import annotations

import random
import re
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from sparring import L2, Game, Method, Output, Passes, Properties
from sparring.ascent import gradient
from sparring.testing import CHECKS, check_method
from sparring.testing.toy import toy
from tests.conformance_models import Subject, bert, lstm


class Sound(Method):
    """One step from a random start, and nothing wrong; what the others break is a function each."""

    def __init__(self, *, size: float = 0.1, **common: Any) -> None:
        super().__init__(**common)
        self.size, self.ball = size, L2()

    def play(self, game: Game) -> Tensor:
        delta = self.attack(game, self.start(game))
        loss = game.loss(delta)
        game.backward(loss)
        return loss

    def start(self, game: Game) -> Tensor:
        return self.size * self.ball.spread(game.support(), game.noise())

    def attack(self, game: Game, start: Tensor) -> Tensor:
        return self.ball.ascend(start, gradient(game, game.loss, start), self.size)

    @property
    def passes(self) -> Passes:
        return Passes(full=1, ascent=1)

    @property
    def properties(self) -> Properties:
        return Properties(random_start=True)


# -- what a call leaves --------------------------------------------------------------------------------------


class ReturnsAVector(Sound):
    def play(self, game: Game) -> Tensor:
        return super().play(game)[None]


class WritesWeightsAndTakesItBack(Sound):
    def play(self, game: Game) -> Tensor:
        weight = game.target.module.weight
        with torch.no_grad():
            weight.add_(0.1)
        loss = super().play(game)
        with torch.no_grad():
            weight.sub_(0.1)
        return loss


class WritesABuffer(Sound):
    def play(self, game: Game) -> Tensor:
        game.model.seen.add_(1)
        return super().play(game)


class LeavesAHook(Sound):
    def play(self, game: Game) -> Tensor:
        game.model.register_forward_hook(lambda *_: None)
        return super().play(game)


class LeavesAHookOnAParameter(Sound):
    def play(self, game: Game) -> Tensor:
        next(game.model.parameters()).register_hook(lambda _grad: None)
        return super().play(game)


class LeavesAnAttribute(Sound):
    def play(self, game: Game) -> Tensor:
        game.target.module.adversary = "was here"
        return super().play(game)


class ReordersTheStateDict(Sound):
    def play(self, game: Game) -> Tensor:
        words = game.model.words
        del game.model.words
        game.model.words = words
        return super().play(game)


class TurnsAllModulesToTraining(Sound):
    def play(self, game: Game) -> Tensor:
        game.model.train()
        return super().play(game)


class FreezesAParameter(Sound):
    def play(self, game: Game) -> Tensor:
        loss = super().play(game)
        game.model.positions.requires_grad_(requires_grad=False)
        return loss


class DrawsFromTheGlobalStream(Sound):
    def start(self, game: Game) -> Tensor:
        return 0.1 * torch.rand(()) * game.support()


class DrawsFromPythonsStream(Sound):
    def start(self, game: Game) -> Tensor:
        return 0.1 * random.random() * game.support()


class HooksWithoutFinally(Sound):
    """Takes its hook away, unless the forward raises."""

    def play(self, game: Game) -> Tensor:
        handle = game.model.register_forward_hook(lambda *_: None)
        loss = super().play(game)
        handle.remove()
        return loss


class SwitchesBackwardsWithoutFinally(Sound):
    """Restores a flag, unless the backward raises."""

    def play(self, game: Game) -> Tensor:
        loss = game.loss(self.attack(game, self.start(game)))
        game.model.positions.requires_grad_(requires_grad=False)
        game.backward(loss)
        game.model.positions.requires_grad_()
        return loss


# -- what a call computes ------------------------------------------------------------------------------------


class TrainsAllButTheEmbeddings(Sound):
    def play(self, game: Game) -> Tensor:
        loss = super().play(game)
        game.target.module.weight.grad = None
        return loss


class DropsWhatWasAccumulated(Sound):
    def play(self, game: Game) -> Tensor:
        game.model.zero_grad()
        return super().play(game)


class TakesAPassMore(Sound):
    def play(self, game: Game) -> Tensor:
        with torch.no_grad():
            game.loss()
        return super().play(game)


class TakesAPassBesideTheGame(Sound):
    def play(self, game: Game) -> Tensor:
        loss = super().play(game)
        game.model(**game.batch)
        return loss


class AscendsByBackward(Sound):
    """The idiom of copied code: a whole backward for the perturbation's sake, and then zero_grad."""

    def attack(self, game: Game, start: Tensor) -> Tensor:
        kept = [parameter.grad for parameter in game.model.parameters()]
        for parameter in game.model.parameters():
            parameter.grad = None
        delta = start.requires_grad_()
        game.loss(delta).backward()
        for parameter, grad in zip(game.model.parameters(), kept, strict=True):
            parameter.grad = grad
        return self.ball.ascend(delta, delta.grad, self.size)


class PerturbsPadding(Sound):
    def attack(self, game: Game, start: Tensor) -> Tensor:
        return super().attack(game, start) + 0.01


# -- what training meets -------------------------------------------------------------------------------------


class GivesUnusedParametersZeros(Sound):
    def play(self, game: Game) -> Tensor:
        loss = super().play(game)
        for parameter in game.model.parameters():
            if parameter.grad is None and parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        return loss


class DoesNothingToFrozenEmbeddings(Sound):
    """As every method that takes its perturbation from the gradient of the embedding matrix."""

    def attack(self, game: Game, start: Tensor) -> Tensor:
        delta = super().attack(game, start)
        return delta if game.target.module.weight.requires_grad else 0 * delta


class DividesByTheNumberOfTokens(Sound):
    def start(self, game: Game) -> Tensor:
        return super().start(game) / game.support().mean((1, 2), keepdim=True)


class DividesByTheNormOfAllGradients(Sound):
    def attack(self, game: Game, start: Tensor) -> Tensor:
        grad = gradient(game, game.loss, start)
        return start + self.size * grad / grad.norm()


class RoundsUnderAutocast(Sound):
    def attack(self, game: Game, start: Tensor) -> Tensor:
        delta = super().attack(game, start)
        return delta.bfloat16() if torch.is_autocast_enabled("cpu") else delta


class RoundsToTheModelsPrecision(Sound):
    def attack(self, game: Game, start: Tensor) -> Tensor:
        return super().attack(game, start).to(game.target.module.weight.dtype)


class TakesItsHookAwayBeforeTheBackward(Sound):
    """So that a block is recomputed without it (huggingface/peft#2826)."""

    def play(self, game: Game) -> Tensor:
        self.attack(game, self.start(game))
        with game.target.module.register_forward_hook(lambda _module, _args, output: 1.1 * output):
            loss = game.loss()
        game.backward(loss)
        return loss


class AscendsOnAGradientOfItsOwn(Sound):
    """Through the model without a perturbation of the game's: re-entrant checkpoints forbid that."""

    def attack(self, game: Game, start: Tensor) -> Tensor:
        seen: list[Tensor] = []
        with game.target.module.register_forward_hook(lambda _module, _args, output: seen.append(output)):
            loss = game.loss()
        (grad,) = torch.autograd.grad(loss, seen)
        return self.ball.ascend(start, grad, self.size)


# -- what a method keeps -------------------------------------------------------------------------------------


class KeepsTheModel(Sound):
    def play(self, game: Game) -> Tensor:
        self.student = game.model
        return super().play(game)


class KeepsAnEmbedding(Sound):
    def play(self, game: Game) -> Tensor:
        self.matrix = game.target.module.weight
        return super().play(game)


class SharesWithTheOthers(Sound):
    last: ClassVar[list[Method]] = []

    def start(self, game: Game) -> Tensor:
        start = super().start(game) * (1 if self.last == [self] else 2)
        self.last[:] = [self]
        return start


class ForgetsItsSchedule(Sound):
    def start(self, game: Game) -> Tensor:
        self.seen = vars(self).get("seen", 0) + 1
        return self.seen * super().start(game)


# -- what a method promises ----------------------------------------------------------------------------------


class KeepsItsRandomStartToItself(Sound):
    @property
    def properties(self) -> Properties:
        return Properties(random_start=False)


class AddsTheCleanLoss(Sound):
    def play(self, game: Game) -> Tensor:
        clean = game.loss()
        game.backward(clean)
        return clean + super().play(game)

    @property
    def passes(self) -> Passes:
        return Passes(full=2, ascent=1)


class DrawsFreshDropoutMasks(Sound):
    def play(self, game: Game) -> Tensor:
        game.stream.same = False
        return super().play(game)


class TakesOneNormOverTheBatch(Sound):
    def attack(self, game: Game, start: Tensor) -> Tensor:
        grad = gradient(game, game.loss, start)
        return start + self.size * grad / grad.norm().clamp(min=1e-9)


class CountsPadding(Sound):
    """As NEFTune's published code does."""

    def start(self, game: Game) -> Tensor:
        return super().start(game) / game.support()[0].numel() ** 0.5


class CountsFromTheLeft(Sound):
    def start(self, game: Game) -> Tensor:
        start = super().start(game)
        return start * torch.arange(1, start.shape[1] + 1)[:, None]


class ForgetsTheWeight(Sound):
    def play(self, game: Game) -> Tensor:
        delta = self.attack(game, self.start(game))
        loss = game.outputs(delta).loss
        game.backward(loss)
        return loss


BROKEN: list[tuple[str, type[Sound]]] = [
    ("the_loss_is_a_detached_scalar", ReturnsAVector),
    ("parameters_and_buffers_stay_bit_equal", WritesWeightsAndTakesItBack),
    ("no_hook_is_left", LeavesAHook),
    ("no_hook_is_left", LeavesAHookOnAParameter),
    ("no_attribute_is_left", LeavesAnAttribute),
    ("no_attribute_is_left", ReordersTheStateDict),
    ("train_and_eval_flags_stay", TurnsAllModulesToTraining),
    ("train_and_eval_flags_stay", FreezesAParameter),
    ("the_random_stream_is_as_plain_training_leaves_it", DrawsFromTheGlobalStream),
    ("the_random_stream_is_as_plain_training_leaves_it", DrawsFromPythonsStream),
    ("a_failing_forward_leaves_no_trace", HooksWithoutFinally),
    ("a_failing_backward_leaves_no_trace", SwitchesBackwardsWithoutFinally),
    ("the_same_parameters_have_gradients", TrainsAllButTheEmbeddings),
    ("two_calls_accumulate", DropsWhatWasAccumulated),
    ("passes_are_as_documented", TakesAPassMore),
    ("passes_are_as_documented", TakesAPassBesideTheGame),
    ("ascent_passes_compute_no_weight_gradients", AscendsByBackward),
    ("perturbations_are_zero_on_padding", PerturbsPadding),
    ("unused_parameters_get_no_gradient", GivesUnusedParametersZeros),
    ("frozen_embeddings_change_no_other_gradient", DoesNothingToFrozenEmbeddings),
    ("a_fully_padded_row_is_harmless", DividesByTheNumberOfTokens),
    ("ignored_labels_are_as_in_plain_training", DividesByTheNormOfAllGradients),
    ("autocast_keeps_perturbations_in_float32", RoundsUnderAutocast),
    ("a_bfloat16_model_has_perturbations_in_float32", RoundsToTheModelsPrecision),
    ("the_model_is_no_part_of_the_method", KeepsTheModel),
    ("the_model_is_no_part_of_the_method", KeepsAnEmbedding),
    ("two_methods_do_not_disturb_each_other", SharesWithTheOthers),
    ("a_resumed_run_continues_bit_for_bit", ForgetsItsSchedule),
    ("random_starts_are_declared", KeepsItsRandomStartToItself),
    ("sizes_zero_give_the_plain_gradient", AddsTheCleanLoss),
    ("sizes_zero_give_the_plain_gradient", DrawsFreshDropoutMasks),
    ("an_example_has_the_same_perturbation_in_any_batch", TakesOneNormOverTheBatch),
    ("an_example_has_the_same_perturbation_under_padding_on_the_right", CountsPadding),
    ("micro_batches_give_the_gradient_of_the_batch", ForgetsTheWeight),
]
BROKEN_ON: list[tuple[str, type[Sound], Subject]] = [
    ("checkpointing_changes_no_gradient", TakesItsHookAwayBeforeTheBackward, bert()),
    ("re_entrant_checkpointing_changes_no_gradient", AscendsOnAGradientOfItsOwn, bert()),
    ("an_example_has_the_same_perturbation_under_padding_on_the_left", CountsFromTheLeft, lstm()),
]


def test_a_sound_method_passes() -> None:
    outcome = check_method(Sound, at_zero=lambda: Sound(size=0.0))
    assert list(outcome) == [check.__name__ for check in CHECKS]


def test_every_check_has_a_method_that_it_catches() -> None:
    assert {check.__name__ for check in CHECKS} == {name for name, *_ in [*BROKEN, *BROKEN_ON]}


@pytest.mark.parametrize(("check", "broken"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_a_broken_method_is_caught(check: str, broken: type[Sound]) -> None:
    with pytest.raises(AssertionError, match=f"^{check}: "):
        check_method(broken, at_zero=lambda: broken(size=0.0))


@pytest.mark.parametrize(
    ("check", "broken", "subject"), BROKEN_ON, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_method_that_some_models_break_is_caught_on_one_of_them(
    check: str, broken: type[Sound], subject: Subject
) -> None:
    site = Output(subject.layer)
    with pytest.raises(AssertionError, match=f"^{check}: "):
        check_method(
            lambda: broken(site=site),
            subject.model,
            subject.batch,
            at_zero=lambda: broken(site=site, size=0.0),
        )


def test_a_method_that_writes_a_buffer_is_caught() -> None:
    model, batch = toy()
    model.register_buffer("seen", torch.zeros(()))
    with pytest.raises(
        AssertionError, match=r"^parameters_and_buffers_stay_bit_equal: a call changed the buffer seen"
    ):
        check_method(WritesABuffer, model, batch)


def test_a_promise_that_cannot_be_checked_is_no_pass() -> None:
    message = "sizes_zero_give_the_plain_gradient: plain_at_zero is declared, so pass at_zero="
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_method(Sound)


def test_the_model_and_the_random_stream_are_left_alone() -> None:
    model, batch = toy()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    check_method(Sound, model.eval(), batch, at_zero=lambda: Sound(size=0.0))
    assert torch.equal(torch.get_rng_state(), state)
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": nn.Linear(1, 1)}, "pass a model and a batch for it, or neither"),
        ({"batch": toy()[1]}, "pass a model and a batch for it, or neither"),
        (
            {"model": toy()[0], "batch": {"input_ids": torch.ones(3, 2)}},
            "has 3 examples, but must have 4 or more",
        ),
    ],
)
def test_a_call_that_cannot_be_checked_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_method(Sound, **arguments)
