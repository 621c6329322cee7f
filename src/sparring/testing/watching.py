"""See a method's passes from outside, and give it its random start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest import mock

import torch
from torch import Generator, Tensor
from torch.overrides import TorchFunctionMode

from sparring.game import Game, Outputs
from sparring.testing.batches import View


@dataclass
class Pass:
    """One forward: its perturbation, where it may act, and which kind of backward came after it."""

    delta: Tensor | None
    support: Tensor
    kind: Literal["forward", "ascent", "full"] = "forward"


@dataclass
class Watch:
    """What was seen: the passes, in their order, and whether a backward of the loop's is running now."""

    passes: list[Pass] = field(default_factory=list)
    in_backward: bool = False

    def backward(self, loss: Tensor) -> None:
        """For `method(..., backward=)`."""
        self.in_backward = True
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        finally:
            self.in_backward = False

    def see(self, seen: Pass, outputs: Outputs) -> None:
        """Note which backward reaches the outputs of this pass: the loop's (full) or another (ascent)."""

        def reached(_grad: Tensor) -> None:
            seen.kind = "full" if self.in_backward else "ascent"

        for output in (outputs.loss, outputs.logits):
            if isinstance(output, Tensor) and output.requires_grad:
                output.register_hook(reached)  # type: ignore[no-untyped-call]


@contextmanager
def watching() -> Iterator[Watch]:
    """Inside, every pass of every game is seen."""
    watch, run = Watch(), Game.outputs

    def outputs(game: Game, delta: Tensor | None = None) -> Outputs:
        seen = Pass(None if delta is None else delta.detach().clone(), game.support())
        watch.passes.append(seen)
        result = run(game, delta)
        watch.see(seen, result)
        return result

    with mock.patch.object(Game, "outputs", outputs):
        yield watch


FILLS: dict[Any, Callable[..., Tensor]] = {
    torch.rand: Tensor.uniform_,
    torch.randn: Tensor.normal_,
    Tensor.uniform_: Tensor.uniform_,
    Tensor.normal_: Tensor.normal_,
}


class GivenNoise(TorchFunctionMode):
    """Inside, noise drawn from a method's own generator is given: an example has the same in every batch.

    It replaces what `torch.rand`, `torch.randn`, `uniform_` and `normal_` return with a `generator=`, where
    the shape begins with the examples. Draws from the global stream are left alone.

    Args:
        view: the batch that the method will see.
        examples: the number of examples in the whole batch.
        tokens: the number of tokens in the whole batch.
    """

    def __init__(self, view: View, *, examples: int, tokens: int) -> None:
        super().__init__()
        self.view, self.examples, self.tokens = view, examples, tokens

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        drawn = func(*args, **(kwargs or {}))
        own = (kwargs or {}).get("generator") is not None
        if not own or func not in FILLS or drawn.shape[:1] != (len(self.view.rows),):
            return drawn
        bounds = args[1:] if isinstance(args[0], Tensor) else ()
        return drawn.copy_(self._given(FILLS[func], drawn, bounds))

    def _given(self, fill: Callable[..., Tensor], drawn: Tensor, bounds: tuple[Any, ...]) -> Tensor:
        """The view's part of noise for the whole batch."""
        generator = Generator(drawn.device).manual_seed(0)
        if drawn.ndim == 1 or drawn.shape[1] != len(self.view.tokens):
            table = drawn.new_empty(self.examples, *drawn.shape[1:])
            return fill(table, *bounds, generator=generator)[self.view.rows]
        table = drawn.new_empty(self.examples, self.tokens, *drawn.shape[2:])
        tokens = [0 if token is None else token for token in self.view.tokens]
        return fill(table, *bounds, generator=generator)[self.view.rows][:, tokens]
