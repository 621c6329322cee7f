"""The contract: a method stands where `loss.backward()` stood.

    loss = method(model, batch)

leaves the gradient to train on in the parameters' `.grad` and returns the detached loss. Stepping, clipping,
scheduling, scaling and logging stay with the loop. A method's author writes one function, `play(game)`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from inspect import signature
from random import Random
from typing import Any, Literal, TypeVar
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn

from sparring.anatomy import unwrap
from sparring.errors import InputError
from sparring.figures import Figures
from sparring.game import Backward, Forward, Game, backward, call
from sparring.probe import probe
from sparring.randomness import Stream, devices_of
from sparring.sites import Embeddings, Site, Target

logger = logging.getLogger("sparring")
logger.setLevel(logging.INFO)
_default = logging.StreamHandler()  # a method that isn't seen to start may as well not have been attached
_default.setFormatter(logging.Formatter("sparring: %(message)s"))
_default.addFilter(lambda _record: not logging.getLogger().handlers)  # else the application decides
logger.addHandler(_default)

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Passes:
    """What a batch costs.

    Attributes:
        full: forwards with a full backward.
        ascent: forwards with an input-only backward.
        forward: forwards alone.
    """

    full: int = 0
    ascent: int = 0
    forward: int = 0

    def __str__(self) -> str:
        return " + ".join(f"{count} {kind}" for kind, count in asdict(self).items() if count) or "none"


@dataclass(frozen=True)
class Properties:
    """What a method promises; `sparring.testing.check_method` checks it.

    Attributes:
        per_example: an example's perturbation doesn't depend on the rest of the batch, nor on padding.
        random_start: perturbations begin with noise, so the promise holds for a given start only.
        plain_at_zero: with sizes 0 the gradient is plain training's.
    """

    per_example: bool = True
    random_start: bool = False
    plain_at_zero: bool = True


class Method(nn.Module, ABC):
    """An adversarial training method.

    Args:
        site: where the perturbation acts.
        unit: the length that sizes are given in. None measures the mean norm of a vector at the site once, on
            a model's first batch, so that sizes travel between models; 1.0 makes them absolute, as papers
            print them.
        dropout: whether all passes of a batch share one dropout mask, `"same"`, or draw their own, `"fresh"`.
        forward: a callable `(model, batch) -> loss | (loss, logits) | mapping`, for models without a loss.
        seed: of the method's own random starts; the global random stream is that of an untouched run.
    """

    replays: int = 1
    """How many times in a row the loop presents each batch (FreeAT)."""

    def __init__(
        self,
        *,
        site: Site | None = None,
        unit: float | None = None,
        dropout: Literal["same", "fresh"] = "same",
        forward: Forward | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if dropout not in ("same", "fresh"):
            raise InputError(f"dropout is {dropout!r}, but must be 'same' or 'fresh'")
        self.site = site if site is not None else Embeddings()
        self.unit = None if unit is None else check("unit", unit, above=0)
        self.dropout = dropout
        self.call: Forward = forward if forward is not None else call
        self.seed = seed
        self.figures = Figures()
        self.calls = 0
        self.steps_done = 0.0  # optimizer steps begun: the sum of the micro-batches' shares
        self.skipped = torch.zeros((), dtype=torch.long)
        self._measured = unit is None
        self._model: ReferenceType[nn.Module] | None = None  # no submodule: its weights are not the method's
        self._target: Target | None = None
        self._versions: tuple[int, int] | None = None  # the model's and its own, at its first gradient
        self._moved = False  # whether an optimizer has moved the own parameters

    # -- what an author writes -------------------------------------------------------------------------------

    @abstractmethod
    def play(self, game: Game) -> Tensor:
        """Leave the batch's gradient in the parameters' `.grad`; return the detached loss."""

    @property
    @abstractmethod
    def passes(self) -> Passes:
        """What one batch costs."""

    @property
    def properties(self) -> Properties:
        """What the method promises with these arguments."""
        return Properties(per_example=self.site.per_example)

    # -- what a loop calls -----------------------------------------------------------------------------------

    def forward(
        self,
        model: nn.Module,
        batch: Any,
        *,
        weight: float = 1.0,
        loss_weight: float | None = None,
        forward: Forward | None = None,
        backward: Backward = backward,
    ) -> Tensor:
        """Leave the batch's gradient in the parameters' `.grad` and return the detached loss.

        Args:
            model: in training mode, as the loop has it (wrapped, compiled, under autocast).
            batch: what `forward` takes; by default the model's keyword arguments.
            weight: under gradient accumulation, the micro-batch's share of the examples of the optimizer
                step.
            loss_weight: the factor on the task loss where it differs: the share of the tokens for a language
                model, 1.0 for a loop that scales the loss in `forward`.
            forward: for this call, in place of the constructor's.
            backward: how the loop runs a backward, e.g. `accelerator.backward`.

        Raises:
            InputError: the first batch shows that the perturbation would do nothing, or the wrong thing; the
                second step, that the method's own parameters are in no optimizer.
        """
        run = forward if forward is not None else self.call
        target = self._prepared(model, batch, run)
        own = Random(f"{self.seed} {_rank()} {self.calls}")
        stream = Stream(devices_of(model), own, same=self.dropout == "same")
        assert self.unit is not None
        game = Game(
            model,
            batch,
            site=self.site,
            target=target,
            unit=self.unit,
            stream=stream,
            step=int(self.steps_done + SHARE),
            forward=run,
            step_back=backward,
            weight=weight,
            loss_weight=weight if loss_weight is None else loss_weight,
        )
        try:
            loss = self.play(game)
        finally:
            stream.close()
        self.calls += 1
        self.steps_done += weight
        if game.skipped is not None:
            self.skipped = self.skipped.to(game.skipped.device) + game.skipped
        self._check_own_parameters(model)
        return loss.detach()

    def begin(self, *, total_steps: int, steps_per_epoch: int) -> None:
        """A loop calls this once, before the first batch, for methods with a schedule."""

    def param_groups(self) -> list[dict[str, Any]]:
        """Optimizer groups of the method's own parameters; empty for most methods."""
        return []

    def after_step(self, *_: Any) -> None:
        """For `optimizer.register_step_post_hook`; only methods with a teacher need it."""

    def read_figures(self) -> dict[str, float]:
        """Means since the last reading, for a loop to log, and the number of ascent steps skipped so far."""
        figures = {f"adv/{name}": value for name, value in self.figures.read().items()}
        return {**figures, "adv/skipped": float(self.skipped)}

    # -- what an author calls --------------------------------------------------------------------------------

    def report(
        self,
        game: Game,
        *,
        clean: Tensor | None = None,
        adversarial: Tensor | None = None,
        delta_norm: Tensor | None = None,
    ) -> None:
        """Note the batch's figures. Losses are as `game.loss` gave them: shares of an optimizer step's."""
        for name, loss in (("loss_clean", clean), ("loss_adv", adversarial)):
            if loss is not None:
                self.figures.add(name, loss / game.weight, game.weight)
        if delta_norm is not None:
            self.figures.add("delta_norm", delta_norm, game.weight)

    # -- state and description -------------------------------------------------------------------------------

    def get_extra_state(self) -> dict[str, Any]:
        """What a resumed run needs to go on bit for bit."""
        skipped = int(self.skipped)
        return {"calls": self.calls, "steps_done": self.steps_done, "unit": self.unit, "skipped": skipped}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self.calls, self.steps_done, self.unit = state["calls"], state["steps_done"], state["unit"]
        self.skipped = torch.tensor(state["skipped"])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None, "_target": None}  # a copy finds its place anew

    def describe(self) -> str:
        """The method and its arguments, as they are in force."""
        kinds = [kind for kind in type(self).__mro__ if issubclass(kind, Method)]
        names = {name for kind in kinds for name in signature(kind.__init__).parameters}
        arguments = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if name in names)
        return f"{type(self).__name__}({arguments})"

    def status(self) -> str:
        """One line: the method, where it acts, its sizes and its cost."""
        assert self._target is not None
        where = self._target.name or "the model's output"
        return f"{self.describe()} on {where}; 1 unit = {self.unit:.4g}; passes per batch: {self.passes}"

    # -- the first batch -------------------------------------------------------------------------------------

    def _prepared(self, model: nn.Module, batch: Any, run: Forward) -> Target:
        inner = unwrap(model)
        if self._target is None or self._model is None or self._model() is not inner:
            self._target = probe(model, batch, self.site, run)
            if self.unit is None or (self._measured and self._model is not None):  # a loaded unit stays
                self.unit = self._target.norm
            self._model = ref(inner)
            logger.info("%s", self.status())
        return self._target

    def _check_own_parameters(self, model: nn.Module) -> None:
        """Once the optimizer has moved the model, it must have moved the method's own parameters too."""
        own = [p for p in self.parameters() if p.requires_grad]
        if self._moved or not own:
            return
        now = sum(p._version for p in model.parameters()), sum(p._version for p in own)
        if self._versions is None:
            if any(p.grad is not None for p in own):
                self._versions = now
        elif now[0] > self._versions[0]:
            self._moved = now[1] > self._versions[1]
            if not self._moved:
                raise InputError(
                    f"{type(self).__name__}'s parameters are in no optimizer: add *method.param_groups() to "
                    "its groups"
                )


SHARE = 1e-6  # shares of an optimizer step add up to 1 within this


def check(name: str, value: Number, *, above: float | None = None, least: float | None = None) -> Number:
    """`value`, or an InputError that says what was expected of `name`."""
    if (above is not None and not value > above) or (least is not None and not value >= least):
        expected = f"more than {above:g}" if above is not None else f"{least:g} or more"
        raise InputError(f"{name} is {value}, but must be {expected}")
    return value


def _rank() -> int:
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if distributed else 0
