"""Plain training: the method that every other is compared with."""

from __future__ import annotations

from torch import Tensor

from sparring.game import Game
from sparring.method import Method, Passes


class Plain(Method):
    """`loss.backward()`, and nothing else.

    One full pass. Whatever a loop does with a method it does with this one too, so it is the baseline of
    every comparison and the parity test of every loop. Prefer it where no method beats it on your data.
    """

    def play(self, game: Game) -> Tensor:
        loss = game.loss()
        game.backward(loss)
        self.report(game, clean=loss)
        return loss

    @property
    def passes(self) -> Passes:
        return Passes(full=1)
