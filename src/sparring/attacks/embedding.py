"""An attack in embedding space: a trained model's answers when its word embeddings are moved, at worst."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from weakref import ReferenceType, ref

import torch
from torch import Generator, Tensor, nn

from sparring.anatomy import unwrap
from sparring.attacks.strongest import Batch, Strongest, labels_of, logits_of, predicted
from sparring.balls import L2, Ball
from sparring.errors import InputError
from sparring.game import Forward, Game, call
from sparring.method import Passes, check
from sparring.probe import evaluating, probe
from sparring.randomness import Stream, devices_of, untouched
from sparring.sites import Embeddings, Output, Target


@dataclass(frozen=True)
class Attacked:
    """What became of each example of a batch at one radius. Tensors are `[examples]`, in the batch's order.

    Attributes:
        radius: in units.
        labels: the right classes.
        logits: without a perturbation, `[examples, classes]`.
        clean, attacked: the predicted classes without a perturbation, and at the strongest point found.
        clean_loss, loss: the cross-entropy there, in nats.
        norm: of the perturbation at that point, in units; 0 where the clean answer was wrong already.
        passes: what this radius cost (the first one: with the clean pass), in passes of one example.
    """

    radius: float
    labels: Tensor
    logits: Tensor
    clean: Tensor
    attacked: Tensor
    clean_loss: Tensor
    loss: Tensor
    norm: Tensor
    passes: Passes

    @property
    def survived(self) -> Tensor:
        """True where the answer is right, without and under the attack."""
        return self.attacked == self.labels


class EmbeddingPGD:
    """Projected gradient ascent on each example's own loss, the model in evaluation mode.

    Madry et al. 2018, "Towards deep learning models resistant to adversarial attacks"
    (https://arxiv.org/abs/1706.06083). It starts at the text (the first restart) or on the sphere (the
    others), steps by `d <- P(d + a * g / |g|)`, and has broken an example at the first point where the answer
    is wrong. Only examples with a right answer are attacked, and none that is broken already. An example's
    result depends neither on the rest of the batch nor on padding.

    Costs `restarts * (steps + 1)` passes an example and radius at most, one in each restart a forward alone.
    The parameters, their `.grad`, the modes and the global random stream stay as they were.

    Args:
        radius: of the ball, in units.
        steps: ascent steps per restart.
        step_size: the norm of a step, in units; None is `2.5 * radius / steps`, far enough to cross the ball.
        restarts: how many starts.
        ball: the norm, and over what, an example or each token. How large it is, `radius` says.
        site: where the perturbation acts.
        unit: the length that sizes are given in. None measures the mean norm of a vector at the site, on the
            first batch of each model; give a number to compare models at the same absolute radii.
        forward: a callable `(model, batch) -> (loss, logits) | mapping`, for models not called by keyword.
        seed: of the random starts.
    """

    def __init__(
        self,
        radius: float = 0.1,
        *,
        steps: int = 10,
        step_size: float | None = None,
        restarts: int = 1,
        ball: Ball = L2(),
        site: Embeddings | Output = Embeddings(),
        unit: float | None = None,
        forward: Forward = call,
        seed: int = 0,
    ) -> None:
        if not math.isinf(ball.radius):
            raise InputError(f"ball is {ball}: an attack's radius is given as radius={ball.radius}")
        self.radius = check("radius", radius, least=0)
        self.steps = check("steps", steps, least=1)
        self.step_size = check("step_size", step_size, above=0) if step_size is not None else None
        self.restarts = check("restarts", restarts, least=1)
        self.unit = check("unit", unit, above=0) if unit is not None else None
        self.ball, self.site, self.forward, self.seed = ball, site, forward, seed
        self._seen: tuple[ReferenceType[nn.Module], Target] | None = None  # the last model, and its site

    def __call__(self, model: nn.Module, batch: Batch) -> Attacked:
        """Attack the examples of a batch, which has `labels`, at `radius`."""
        return self.sweep(model, batch, [self.radius])[0]

    def sweep(self, model: nn.Module, batch: Batch, radii: Iterable[float]) -> list[Attacked]:
        """Attack at several radii, the smallest first: one result per radius, in that order.

        A ball lies in every larger one, so what was found at a radius counts at the larger ones too: an
        example once broken stays broken at no cost, and the loss found never falls. Radius 0 is one forward
        under a perturbation of 0.

        Raises:
            InputError: no labels, no logits, or nothing to perturb.
        """
        game = self._game(model, batch)
        labels = labels_of(batch)
        found = []
        with evaluating(game.model), untouched(devices_of(game.model)):
            with torch.no_grad():
                logits = logits_of(game, None, labels)
            search = Strongest(game, labels, logits)
            clean, clean_loss, paid = search.prediction.clone(), search.loss.clone(), Passes()
            for radius in sorted({float(check("radius", radius, least=0)) for radius in radii}):
                for restart in range(self.restarts if radius > 0 else 1):
                    self._climb(search, radius, restart)
                attacked = Attacked(
                    radius,
                    labels=labels,
                    logits=logits,
                    clean=clean,
                    attacked=search.prediction.clone(),
                    clean_loss=clean_loss,
                    loss=search.loss.clone(),
                    norm=search.norm.clone(),
                    passes=Passes(forward=search.forward - paid.forward, ascent=search.ascent - paid.ascent),
                )
                paid = Passes(forward=search.forward, ascent=search.ascent)
                found.append(attacked)
        return found

    def noise(self, model: nn.Module, batch: Batch, radius: float) -> Tensor:
        """The predicted classes under a random perturbation of this norm, `[examples]`. One forward."""
        game = self._game(model, batch)
        with evaluating(game.model), untouched(devices_of(game.model)), torch.no_grad():
            return predicted(logits_of(game, radius * self._random(game, draw=0), labels_of(batch)))

    def unit_of(self, model: nn.Module, batch: Batch) -> float:
        """The length of one unit for this model: as given, or as measured on its first batch."""
        return self._game(model, batch).unit

    def describe(self) -> str:
        """The attack in one line."""
        step = "2.5 * radius / steps" if self.step_size is None else f"{self.step_size:g}"
        norm = f"{type(self.ball).__name__} over each {self.ball.over}"
        times = f"{self.restarts} restart{'s' if self.restarts > 1 else ''}"
        where = "word embeddings" if self.site == Embeddings() else self.site
        return f"PGD on {where}, {norm}, {self.steps} steps of {step}, {times}, seed {self.seed}"

    def _climb(self, search: Strongest, radius: float, restart: int) -> None:
        """One restart, for the examples that stand; one that falls on the way leaves the batch."""
        rows = search.standing()
        if not len(rows):
            return
        ball = replace(self.ball, radius=radius)
        steps = self.steps if radius > 0 else 0
        step_size = self.step_size if self.step_size is not None else 2.5 * radius / self.steps
        game = search.part(rows)
        delta = radius * self._random(game, draw=restart) if restart > 0 else game.zeros()
        for step in range(steps + 1):
            logits, grad = search.look(rows, delta, ascent=step < steps)
            standing = search.note(rows, logits, ball.norm(delta).flatten(1).amax(1))
            rows, delta, grad = rows[standing], delta[standing], grad[standing]
            if not len(rows):
                return
            delta = ball.ascend(delta, grad, step_size)

    def _random(self, game: Game, *, draw: int) -> Tensor:
        """A random perturbation of norm 1 for each example, on the CPU's numbers whatever the device.

        All examples get the same numbers, one vector after the other along their own tokens: so a start
        depends neither on the batch nor on padding.
        """
        support = game.support()
        rows = support.reshape(len(support), -1, support.shape[-1])  # a vector per sequence is one token
        own = Generator().manual_seed(Random(f"{self.seed} {draw}").getrandbits(62))
        noise = 2 * torch.rand(rows.shape[1:], generator=own, dtype=rows.dtype).to(rows.device) - 1
        token = (rows.any(-1).cumsum(1) - 1).clamp(min=0)
        return self.ball.unit((noise[token] * rows).view_as(support))

    def _game(self, model: nn.Module, batch: Batch) -> Game:
        model = unwrap(model)  # DDP's forward would wait for gradients of the parameters, which never come
        if self._seen is None or self._seen[0]() is not model:
            self._seen = ref(model), probe(model, batch, self.site, self.forward)
        target = self._seen[1]
        return Game(
            model,
            batch,
            site=self.site,
            target=target,
            unit=self.unit if self.unit is not None else target.norm,
            stream=Stream(devices_of(model), Random(self.seed), same=True),
            forward=self.forward,
        )
