"""Methods that keep what they shouldn't, or not what they promise."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from sparring import Game, Method, Passes, Properties
from sparring.ascent import gradient
from tests.conformance_broken import Sound

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
