"""A method that wants all that a loop can give, and notes what it gets."""

from __future__ import annotations

import torch
from torch import nn

from sparring import Method, Passes


class Asking(Method):
    """Has a parameter of its own, whose gradient is `scale` times the loss."""

    def __init__(self, scale=1.0, replays=1):
        super().__init__()
        self.own = nn.Parameter(torch.ones(3))
        self.scale, self.replays = scale, replays
        self.told, self.steps, self.seen, self.norms = None, [], [], []

    def begin(self, *, total_steps, steps_per_epoch):
        self.told = total_steps, steps_per_epoch

    def param_groups(self):
        return [{"params": [self.own], "lr": 0.5}]

    def after_step(self, *_):
        self.norms.append(float(self.own.grad.norm()))

    def play(self, game):
        self.steps.append(game.step)
        self.seen.append(game.batch["input_ids"].sum().item())
        loss = game.loss()
        game.backward(loss + self.scale * loss.detach() * self.own.sum())
        return loss

    @property
    def passes(self):
        return Passes(full=1)
