"""A sound method, and others with one mistake each."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor

from sparring import L2, Game, Method, Passes, Properties
from sparring.ascent import gradient


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
