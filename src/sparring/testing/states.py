"""What a method keeps from batch to batch."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW

from sparring.method import Method
from sparring.randomness import capture, devices_of, restore
from sparring.testing.batches import Batch, rows_of
from sparring.testing.setting import Setting, difference, play, require


def the_model_is_no_part_of_the_method(setting: Setting) -> None:
    """Else the model would be saved with the method's state and trained twice."""
    model = setting.subject()
    method = setting.method(model)
    play(method, model, setting.batch)
    own = {id(module) for module in method.modules()}
    require(
        not any(id(module) in own for module in model.modules()),
        "the model, or a part of it, is a submodule of the method",
    )
    own = {id(parameter) for parameter in method.parameters()}
    require(
        not any(id(p) in own for p in model.parameters()), "a parameter of the model is one of the method's"
    )


def two_methods_do_not_disturb_each_other(setting: Setting) -> None:
    """What another method does in the same process, on the same model, changes nothing."""
    model = setting.subject()
    alone, one, other = (setting.method(model) for _ in range(3))
    expected = [play(alone, model, setting.batch, seed=seed).grads for seed in (1, 2)]
    found = []
    for seed in (1, 2):
        found.append(play(one, model, setting.batch, seed=seed).grads)
        play(other, model, setting.batch, seed=3)
    for call, (ours, theirs) in enumerate(zip(found, expected, strict=True), start=1):
        wrong = difference(ours, theirs, within=0)
        require(not wrong, f"beside another method, call {call} gives another gradient at {wrong}")


def a_resumed_run_continues_bit_for_bit(setting: Setting) -> None:
    """From the method's state dict, the model's and the optimizer's it goes on as if nothing had happened."""
    unbroken = _Training.begun(setting)
    unbroken.train()
    saved = unbroken.save()
    unbroken.train()
    resumed = _Training.begun(setting)
    resumed.load(saved)
    resumed.train()
    for owner, ours, theirs in (
        ("model", resumed.model, unbroken.model),
        ("method", resumed.method, unbroken.method),
    ):
        for (name, value), expected in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            require(
                torch.equal(value, expected),
                f"after resuming, the {owner}'s {name} is another than in the unbroken run",
            )


@dataclass
class _Training:
    """A training run of two batches that a checkpoint can interrupt."""

    method: Method
    model: nn.Module
    optimizer: torch.optim.Optimizer
    batches: list[Batch]

    @classmethod
    def begun(cls, setting: Setting) -> _Training:
        model, method = setting.subject(), setting.factory()
        examples = len(setting.batch["input_ids"])
        batches = [
            rows_of(setting.batch, range(examples)).batch,
            rows_of(setting.batch, range(examples // 2, examples)).batch,
        ]
        method.begin(total_steps=4, steps_per_epoch=2)
        optimizer = AdamW([{"params": model.parameters()}, *method.param_groups()], lr=0.01)
        optimizer.register_step_post_hook(method.after_step)
        torch.manual_seed(0)
        return cls(method, model, optimizer, batches)

    def train(self) -> None:
        for batch in self.batches:
            for _ in range(self.method.replays):
                self.optimizer.zero_grad()
                self.method(self.model, batch)
                self.optimizer.step()

    def save(self) -> bytes:
        file = io.BytesIO()
        parts = (self.method, self.model, self.optimizer)
        random = [state for _, state in capture(devices_of(self.model))]
        torch.save({"states": [part.state_dict() for part in parts], "random": random}, file)
        return file.getvalue()

    def load(self, file: bytes) -> None:
        saved: dict[str, Any] = torch.load(io.BytesIO(file), weights_only=True)
        method, model, optimizer = saved["states"]
        self.method.load_state_dict(method)
        self.model.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)
        restore(list(zip(devices_of(self.model), saved["random"], strict=True)))
