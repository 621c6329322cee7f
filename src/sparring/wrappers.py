"""When to play: wrappers that compose with any method, and with each other."""

from __future__ import annotations

from abc import abstractmethod
from inspect import signature
from typing import Any

from torch import Tensor

from sparring.game import Game
from sparring.method import Method, Passes, Properties, check


class Wrapper(Method):
    """A method that plays another method's game on some batches, and plain training on the rest."""

    def __init__(self, method: Method) -> None:
        super().__init__(
            site=method.site,
            unit=method.unit,
            dropout=method.dropout,
            forward=method.call,
            seed=method.seed,
        )
        self.method = method
        self.figures = method.figures
        self.replays = method.replays

    @abstractmethod
    def plays(self, step: int) -> bool:
        """Whether the method plays in this optimizer step, counted from 0."""

    def play(self, game: Game) -> Tensor:
        if self.plays(game.step):
            return self.method.play(game)
        loss = game.loss()
        game.backward(loss)
        self.report(game, clean=loss)
        return loss

    def describe(self) -> str:
        own = signature(type(self).__init__).parameters
        when = ", ".join(f"{name}={value}" for name, value in vars(self).items() if name in own)
        return f"{type(self).__name__}({self.method.describe()}, {when})"

    @property
    def passes(self) -> Passes:
        return self.method.passes

    @property
    def properties(self) -> Properties:
        return self.method.properties

    def begin(self, *, total_steps: int, steps_per_epoch: int) -> None:
        self.method.begin(total_steps=total_steps, steps_per_epoch=steps_per_epoch)

    def param_groups(self) -> list[dict[str, Any]]:
        return self.method.param_groups()

    def after_step(self, *args: Any) -> None:
        self.method.after_step(*args)


class Delayed(Wrapper):
    """Plain training until optimizer step `start_step`, then the method.

    For trainings that diverge where the attack sets in at once (zhuchen03/FreeLB#8).
    """

    def __init__(self, method: Method, start_step: int) -> None:
        super().__init__(method)
        self.start_step = check("start_step", start_step, least=0)

    def plays(self, step: int) -> bool:
        return step >= self.start_step


class Every(Wrapper):
    """The method on each `every`-th optimizer step, plain training on the rest: 1/every of its extra cost.

    The first step is one of the method's.
    """

    def __init__(self, method: Method, every: int) -> None:
        super().__init__(method)
        self.every = check("every", every, least=1)

    def plays(self, step: int) -> bool:
        return step % self.every == 0
