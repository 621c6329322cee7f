"""What published code does otherwise than its paper, as arguments of our methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from sparring import L2


@dataclass(frozen=True, eq=False)
class StartingAt(L2):
    """The L2 ball with a recorded random start in place of a drawn one."""

    start: Tensor | None = None  # of size 1

    def spread(self, support: Tensor, generator: Generator | None = None) -> Tensor:
        assert self.start is not None
        return self.start


@dataclass(frozen=True, eq=False)
class FairseqL2(StartingAt):
    """zhuchen03/FreeLB, fairseq version: the norm that clips is always taken in float32."""

    divide_in: ClassVar[torch.dtype] = torch.float64

    def project(self, delta: Tensor) -> Tensor:
        norm = delta.flatten(1).float().norm(dim=1).to(self.divide_in)
        exceeds = (norm > self.radius).to(norm)
        return delta * (self.radius / norm * exceeds + (1 - exceeds)).view(-1, 1, 1)


@dataclass(frozen=True, eq=False)
class HuggingFaceL2(FairseqL2):
    """zhuchen03/FreeLB, Hugging Face version: the factor is in float32 too."""

    divide_in: ClassVar[torch.dtype] = torch.float32
