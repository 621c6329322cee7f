"""K-PGD: train on the worst point that K projected steps find."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sparring.ascent import ascend
from sparring.balls import L2, Ball
from sparring.game import Game
from sparring.method import Method, Passes, Properties, check


class PGD(Method):
    """Projected gradient descent training: K ascent steps, then train on the point where they end.

    Madry et al. 2018, "Towards deep learning models resistant to adversarial attacks"
    (https://arxiv.org/abs/1706.06083); on text as in the comparison of Zhu et al. 2020
    (https://arxiv.org/abs/1909.11764): `d_0 = U(-e, e) / sqrt(N)`, K times `d <- P(d + a * g / |g|)`, then
    the gradient of `L(x + d_K)` alone.

    Costs K ascent passes, whose weight gradients are not computed, and one full pass. Prefer it where
    robustness in a known ball is what you want; FreeLB makes more of the same passes for accuracy.

    Args:
        steps: K.
        step_size: `a`, the norm of a step, in units.
        start: `e`, the size of the random start, in units; 0 starts at the text itself.
        ball: the radius in units, the norm, and over what.
        clean_weight: how much of the clean loss is added; with `start=0` its pass is the first ascent step's
            too.
        **common: `site`, `unit`, `dropout`, `forward`, `seed`, as for every `Method`. The idiom of copied
            code is `PGD(steps=3, step_size=0.3, start=0, ball=L2(1.0), clean_weight=1, unit=1.0,
            site=Weight())`.
    """

    def __init__(
        self,
        *,
        steps: int = 3,
        step_size: float = 0.1,
        start: float = 0.0,
        ball: Ball = L2(0.2),
        clean_weight: float = 0.0,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.steps = check("steps", steps, least=1)
        self.step_size = check("step_size", step_size, least=0)
        self.start = check("start", start, least=0)
        self.ball = ball
        self.clean_weight = check("clean_weight", clean_weight, least=0)

    def play(self, game: Game) -> Tensor:
        delta, steps, total = game.zeros(), self.steps, None
        if self.start > 0:
            delta = self.ball.project(self.start * self.ball.spread(game.support(), game.noise()))
        if self.clean_weight > 0:
            clean = game.loss(delta.requires_grad_() if self._shared else None)
            total = self.clean_weight * clean.detach()
            if self._shared:
                grad = game.backward_and_grad(self.clean_weight * clean, delta)
                delta, steps = self.ball.ascend(delta, grad, self.step_size), steps - 1
            else:
                game.backward(self.clean_weight * clean)
            self.report(game, clean=clean)
        delta = ascend(game, game.loss, delta, self.ball, steps=steps, step_size=self.step_size)
        adversarial = game.loss(delta)
        game.backward(adversarial)
        delta_norm = self.ball.mean_norm(delta, game.support())
        self.report(game, adversarial=adversarial, delta_norm=delta_norm)
        return adversarial.detach() if total is None else total + adversarial.detach()

    @property
    def _shared(self) -> bool:
        """Whether the clean pass is also the first ascent step's."""
        return self.clean_weight > 0 and self.start == 0

    @property
    def passes(self) -> Passes:
        return Passes(full=1 + (self.clean_weight > 0), ascent=self.steps - self._shared)

    @property
    def properties(self) -> Properties:
        return Properties(
            per_example=self.site.per_example,
            random_start=self.start > 0,
            plain_at_zero=self.clean_weight == 0,
        )
