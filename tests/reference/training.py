"""Five optimizer steps of a method and of its reference, over the same batches, with dropout."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sparring import Game, Method, Passes
from sparring.game import Outputs
from tests import tiny
from tests.tiny import assert_close

Training = list[dict[str, Tensor]]
Step = Callable[[nn.Module, dict[str, Tensor]], Tensor]
DrawnStep = Callable[[nn.Module, dict[str, Tensor], "Draws"], Tensor]


class Draws:
    """The random numbers of a method's own, by (seed, rank, call): first the start's, then fresh masks'."""

    def __init__(self, seed: int, call: int) -> None:
        self.own = Random(f"{seed} 0 {call}")

    def noise(self, shape: torch.Size) -> Tensor:
        generator = torch.Generator().manual_seed(self.own.getrandbits(62))
        return 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1

    def seeds(self) -> Iterator[int]:
        while True:
            yield self.own.getrandbits(62)


def training(step: Step) -> Iterator[dict[str, Tensor]]:
    """What each of five steps leaves: the loss and all gradients; then the weights and the global stream."""
    model = tiny.bert(dropout=0.2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(1)
    for i in range(5):
        optimizer.zero_grad()
        loss = step(model, tiny.batch(seed=i))
        yield {"loss": loss, **tiny.gradients(model)}
        optimizer.step()
    yield {"next random number": torch.rand(()), **model.state_dict()}


def reference_training(
    step: Callable[[nn.Module, dict[str, Tensor], Draws], Tensor], *, seed: int = 0
) -> Training:
    """The same of a reference, which is told the numbers that the method draws."""
    calls = iter(range(5))
    return list(training(lambda model, batch: step(model, batch, Draws(seed, next(calls)))))


def assert_trains_like(method: Method, expected: Training, *, tolerance: float = 1e-10) -> None:
    for actual, wanted in zip(training(method), expected, strict=True):
        assert_close(actual, wanted, tolerance=tolerance)


def deltas_of(method: Method, model: nn.Module, batch: dict[str, Tensor]) -> list[Tensor]:
    """The perturbation of each pass of a call; 0 for a clean one."""
    seen: list[Tensor] = []
    outputs = Game.outputs

    def spy(game: Game, delta: Tensor | None = None) -> Outputs:
        seen.append(game.zeros() if delta is None else delta.detach().clone())
        return outputs(game, delta)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Game, "outputs", spy)
        method(model, batch)
    return seen


def play(function, model=None, batch=None, *, site=None, unit=1.0, **options):
    """Run the function on a game of the model, or of a bag of words without dropout."""

    def played(game):
        function(game)
        return torch.zeros(())

    model = tiny.bag(dropout=0.0) if model is None else model
    tiny.Playing(played, site=site, unit=unit)(model, batch or tiny.batch(), **options)


def count_passes(method: Method, model: nn.Module, batch: dict[str, Tensor]) -> Passes:
    """What a call of the method cost, seen from the model: forwards, and which of them had which backward."""
    forwards, backwards, full = [], [], []

    def count(_module, _args, outputs) -> None:
        if outputs.logits.requires_grad:  # the probe's don't
            forwards.append(None)
            outputs.logits.register_hook(lambda _: backwards.append(None))

    handles = [
        model.register_forward_hook(count),
        model.classifier.weight.register_hook(lambda _: full.append(None)),
    ]
    method(model, batch)
    for handle in handles:
        handle.remove()
    return Passes(full=len(full), ascent=len(backwards) - len(full), forward=len(forwards) - len(backwards))


def saved_and_loaded(state: dict[str, Any]) -> dict[str, Any]:
    """The state as a file gives it back, without running code out of the file."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)
