"""FGM and FGSM: one step along the gradient."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sparring.balls import L2, Ball, Linf
from sparring.game import Game
from sparring.method import Method, Passes, Properties, check


class FGM(Method):
    """Fast gradient method: train on the clean text and on one step of size `epsilon` along the gradient.

    Miyato, Dai, Goodfellow 2017, "Adversarial training methods for semi-supervised text classification"
    (https://arxiv.org/abs/1605.07725), equations 5 and 6: `L(x) + w L(x + d)` with `d = epsilon * g / |g|_2`,
    `g` the gradient at `x`. With `ball=Linf()` the step is `epsilon * sign(g)`, FGSM (Goodfellow et al. 2015,
    https://arxiv.org/abs/1412.6572).

    Costs two full passes: the clean pass gives both the parameters' clean gradient and `g`. Prefer it to
    FreeLB where twice the time is what you can pay.

    Args:
        epsilon: the norm of the step, in units.
        ball: which norm, over what. Its radius bounds the step.
        weight: `w`. Gradient clipping clips a larger sum of gradients more often; Adam ignores the sum's
            size.
        mean: divide the loss by `1 + w`, so that sizes 0 give plain training.
        **common: `site`, `unit`, `dropout`, `forward`, `seed`, as for every `Method`. The idiom of copied
            code (one norm over the embedding matrix) is `FGM(epsilon=1.0, unit=1.0, site=Weight())`.

    Differs from the paper: embeddings are not normalised over the vocabulary; sizes are in units of their
    norm instead.
    """

    def __init__(
        self,
        *,
        epsilon: float = 0.15,
        ball: Ball = L2(),
        weight: float = 1.0,
        mean: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.epsilon = check("epsilon", epsilon, least=0)
        self.ball = ball
        self.weight = check("weight", weight, above=0)
        self.mean = mean

    def play(self, game: Game) -> Tensor:
        scale = 1 / (1 + self.weight) if self.mean else 1.0
        delta = game.zeros().requires_grad_()
        clean = game.loss(delta)
        grad = game.backward_and_grad(scale * clean, delta)  # g, and the parameters' clean share
        delta = self.ball.ascend(delta, grad, self.epsilon)  # equation 6
        adversarial = game.loss(delta)
        game.backward(scale * self.weight * adversarial)
        delta_norm = self.ball.mean_norm(delta, game.support())
        self.report(game, clean=clean, adversarial=adversarial, delta_norm=delta_norm)
        return scale * (clean.detach() + self.weight * adversarial.detach())

    @property
    def passes(self) -> Passes:
        return Passes(full=2)

    @property
    def properties(self) -> Properties:
        return Properties(per_example=self.site.per_example, plain_at_zero=self.mean)


class FGSM(FGM):
    """Fast gradient sign method: `FGM` in the Linf ball, every coordinate moved by `epsilon`.

    Goodfellow, Shlens, Szegedy 2015, "Explaining and harnessing adversarial examples"
    (https://arxiv.org/abs/1412.6572). Prefer it where you compare with work that uses the sign.
    """

    def __init__(
        self,
        *,
        epsilon: float = 0.01,
        ball: Ball = Linf(),
        weight: float = 1.0,
        mean: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(epsilon=epsilon, ball=ball, weight=weight, mean=mean, **common)
