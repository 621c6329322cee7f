"""FreeLB: the gradient of every ascent step is used."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparring.balls import L2, Ball
from sparring.game import Game
from sparring.method import Method, Passes, Properties, check


class FreeLB(Method):
    """Free large-batch adversarial training: the mean of the gradients at K points of an ascent.

    Zhu et al. 2020, "FreeLB: Enhanced adversarial training for natural language understanding"
    (https://arxiv.org/abs/1909.11764), algorithm 1. Costs K full passes and no other: each backward gives the
    parameters' share and the step of `delta`. All K passes share one dropout mask.

    Prefer it where accuracy is what you want; it is the method to try first.

    Args:
        steps: K, 2 to 4 in the paper. The published fairseq code takes K + 1 passes of weight 1 / (K + 1):
            that is `steps=K + 1` here.
        step_size: the norm of an ascent step, in units.
        start: the size of the random start, `U(-start, start) / sqrt(N)`, in units.
        ball: the radius in units, the norm, and over what. The published code's Linf step is
            `Linf(radius, step="scaled")`.
        clean_weight: counts a pass without perturbation as this many in the mean; helps where the start is
            large (zhuchen03/FreeLB#10). Costs one full pass more.
        **common: `site`, `unit`, `dropout`, `forward`, `seed`, as for every `Method`.
    """

    def __init__(
        self,
        *,
        steps: int = 3,
        step_size: float = 0.05,
        start: float = 0.05,
        ball: Ball = L2(),
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
        share = 1 / (self.steps + self.clean_weight)
        losses = []
        if self.clean_weight > 0:
            clean = game.loss()
            game.backward(share * self.clean_weight * clean)
            losses.append(share * self.clean_weight * clean.detach())
            self.report(game, clean=clean)
        delta = self.ball.project(self.start * self.ball.spread(game.support(), game.noise()))  # line 4
        for step in range(self.steps):
            delta.requires_grad_()
            adversarial = game.loss(delta)
            grad = game.backward_and_grad(share * adversarial, delta)  # lines 8 and 10 in one pass
            losses.append(share * adversarial.detach())
            if step < self.steps - 1:
                delta = self.ball.ascend(delta, grad, self.step_size)  # line 11
        delta_norm = self.ball.mean_norm(delta.detach(), game.support())
        self.report(game, adversarial=adversarial, delta_norm=delta_norm)
        return torch.stack(losses).sum()

    @property
    def passes(self) -> Passes:
        return Passes(full=self.steps + (self.clean_weight > 0))

    @property
    def properties(self) -> Properties:
        return Properties(per_example=self.site.per_example, random_start=self.start > 0)
