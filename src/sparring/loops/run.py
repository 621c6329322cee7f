"""Where a run of the plain loop stands, and how it goes on from a file bit for bit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from torch import nn

from sparring.errors import InputError
from sparring.loops.checkpoints import load, random_state, save, set_random_state


class Run:
    """The optimizer steps done, the state of everything that training changes, and the order of the batches.

    A loader draws its order when a pass over the data begins. So the random state of that moment is kept too:
    a resumed run draws the order again, reads past the batches that are done, and only then takes the random
    state of the checkpoint.

    Args:
        model: says which devices draw random numbers.
        loader: what the batches come from.
        pass_steps: optimizer steps in a pass over the data.
        parts: what has a `state_dict`, by name; None where the loop has none.
    """

    def __init__(
        self, model: nn.Module, loader: Iterable[Any], *, pass_steps: int, parts: dict[str, Any]
    ) -> None:
        self.model, self.loader, self.pass_steps = model, loader, pass_steps
        self.parts = {name: part for name, part in parts.items() if part is not None}
        self.step = 0
        self.order: dict[str, Any] = {}

    def one_pass(self, groups: Iterator[Any]) -> Iterator[Any]:
        """What is left of a pass over the data: all of it, but in the pass that is resumed."""
        now, done = random_state(self.model, self.loader), self.step % self.pass_steps
        if done == 0:
            self.order = now
            return groups
        set_random_state(self.order, self.loader)
        deque(islice(groups, done), maxlen=0)
        set_random_state(now, self.loader)
        return groups

    def save(self, file: Path) -> None:
        """Keep the run in `file`."""
        states = {name: part.state_dict() for name, part in self.parts.items()}
        counts = {"step": self.step, "pass_steps": self.pass_steps, "order": self.order}
        save({**counts, **states, "random": random_state(self.model, self.loader)}, file)

    def load(self, file: Path) -> None:
        """Put everything back to where `file` keeps it.

        Raises:
            InputError: the file can't be read, or is of a run with other data, another model, another method.
        """
        state = load(file)
        if state.get("pass_steps") != self.pass_steps:
            raise InputError(
                f"{file} is of a run with {state.get('pass_steps')} steps for a pass over the data, not "
                f"{self.pass_steps}: resume with the same data, batch size, accumulate and method"
            )
        for name, part in self.parts.items():
            if name not in state:
                raise InputError(f"{file} is of a run without a {name}: resume with the same arguments")
            try:
                part.load_state_dict(state[name])
            except (RuntimeError, ValueError, KeyError) as error:
                what = str(error).splitlines()[0]
                raise InputError(f"{file} is of a run with another {name}: {what}") from error
        set_random_state(state["random"], self.loader)
        self.step, self.order = state["step"], state["order"]
