"""The global random state over the passes of one batch, and the method's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from random import Random

import torch
from torch import Generator, Tensor, nn

State = list[tuple[torch.device, Tensor]]


def devices_of(model: nn.Module) -> list[torch.device]:
    """The devices that a forward can draw random numbers on: the CPU, and those of the parameters."""
    found = {p.device for p in model.parameters()} | {b.device for b in model.buffers()}
    return [torch.device("cpu"), *sorted((d for d in found if d.type not in ("cpu", "meta")), key=str)]


def capture(devices: Iterable[torch.device]) -> State:
    """The random state of each device."""
    return [(d, _state_of(d)) for d in devices]


def _state_of(device: torch.device) -> Tensor:
    if device.type == "cpu":
        return torch.get_rng_state()
    state: Tensor = torch.get_device_module(device).get_rng_state(device)
    return state


def restore(state: State) -> None:
    """Set the random state that `capture` returned."""
    for device, value in state:
        if device.type == "cpu":
            torch.set_rng_state(value)
        else:
            torch.get_device_module(device).set_rng_state(value, device)


def seeded(devices: Iterable[torch.device], seed: int) -> State:
    """The state that each device has after being seeded with `seed`; nothing is set."""
    return [(d, Generator(d).manual_seed(seed).get_state()) for d in devices]


class Stream:
    """Leaves the global random stream as one plain pass would, however many passes a batch takes.

    The first pass draws from the global stream. With `same=True` every later pass starts from where the first
    one did, so that it draws the same dropout masks; otherwise later passes draw fresh masks, seeded by the
    method's own random numbers.
    """

    def __init__(self, devices: list[torch.device], own: Random, *, same: bool) -> None:
        self.devices, self.own, self.same = devices, own, same
        self.before: State | None = None
        self.after: State | None = None

    @contextmanager
    def one_pass(self) -> Iterator[None]:
        """Wraps each forward."""
        if self.before is None:
            self.before = capture(self.devices)
            yield
            self.after = capture(self.devices)
            return
        if self.same:
            restore(self.before)
        else:
            restore(seeded(self.devices, self.own.getrandbits(62)))
        yield

    def close(self) -> None:
        """Put the global stream where the first pass left it."""
        if self.after is not None:
            restore(self.after)


@contextmanager
def untouched(devices: list[torch.device]) -> Iterator[None]:
    """Whatever is drawn inside, the global stream is afterwards as it was before."""
    state = capture(devices)
    try:
        yield
    finally:
        restore(state)
