"""Sites: where a perturbation acts. A site is a plain description; it finds its place in any model.

A perturbation of activations has the shape `[sequences, tokens, hidden]` (leading dimensions of `input_ids`
flattened, as models do with multiple choice), or `[sequences, hidden]` behind a pooler. One of a matrix is
`[1, rows, columns]`: one example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sparring import anatomy
from sparring.errors import InputError
from sparring.inject import OutputShift, Perturbation, WeightShift
from sparring.inject.outputs import first


@dataclass(frozen=True)
class Target:
    """A site as found in one model: what the probe of the first batch saw there.

    Attributes:
        name: the module or parameter, as the model calls it.
        module: the module whose output is perturbed, or that owns the parameter.
        shape: the trailing sizes of a perturbation that don't depend on the batch.
        by_token: whether there is a vector per token, not per sequence.
        dtype: of the perturbation: at least float32.
        device: of the perturbation.
        norm: the mean Euclidean norm of a vector there: the natural unit of sizes.
        padding_id: the token id of padding, as the word embeddings know it, for batches without a mask.
    """

    name: str
    module: nn.Module
    shape: tuple[int, ...]
    by_token: bool
    dtype: torch.dtype
    device: torch.device
    norm: float
    padding_id: int | None = None


class Site(ABC):
    """Where a perturbation acts."""

    @abstractmethod
    def find(self, model: nn.Module) -> tuple[str, nn.Module]:
        """The name of the place, and the module there."""

    @abstractmethod
    def target(self, model: nn.Module, batch: Any, outputs: Sequence[Any]) -> Target:
        """The place with its measures; `outputs` is what each call of the module in a forward returned."""

    @abstractmethod
    def support(self, target: Target, batch: Any) -> Tensor:
        """1 where a perturbation may act, 0 elsewhere (padding); shaped like the perturbation."""

    @abstractmethod
    def shift(self, model: nn.Module, target: Target, delta: Tensor) -> Perturbation:
        """The context manager under which `model` computes with `delta`."""

    per_example: ClassVar[bool] = True
    """Whether each example has a perturbation of its own; a matrix's is shared by the batch."""


@dataclass(frozen=True, kw_only=True)
class _Activations(Site):
    """The output of a module, one vector per token or per sequence.

    Args:
        input_ids: the key of the token ids in a batch; their shape gives the numbers of sequences and tokens.
        mask: the key of the attention mask in a batch, 1 or True for real tokens; where a batch has none,
            tokens that are the word embeddings' `padding_idx` count as padding.
        call: which of the module's calls in a forward is meant, where it is called more than once.
    """

    input_ids: str = "input_ids"
    mask: str = "attention_mask"
    call: int = 0

    def target(self, model: nn.Module, batch: Any, outputs: Sequence[Any]) -> Target:
        name, module = self.find(model)
        where = name or type(model).__name__
        if self.call >= len(outputs):
            raise InputError(f"{where} is called {len(outputs)} times in a forward: no call={self.call}")
        output = first(outputs[self.call])
        sequences, tokens = self._ids(batch).shape
        leading = tuple(output.shape[:-1])
        if leading not in ((sequences, tokens), (sequences,)):
            raise InputError(
                f"{where} returns {list(output.shape)} for {sequences} sequences of {tokens} tokens: not "
                "one vector per token or sequence; choose another module with site=Output('...')"
            )
        by_token = len(leading) == 2
        wide = torch.promote_types(output.dtype, torch.float32)
        norms = torch.linalg.vector_norm(output.to(wide), dim=-1)
        padding_id = anatomy.padding_id(model, module)
        real = self._real(padding_id, batch, by_token=by_token).to(norms.device)
        mean = float((norms * real).sum() / real.sum().clamp(min=1))
        shape = (output.shape[-1],)
        return Target(name, module, shape, by_token, wide, output.device, mean, padding_id)

    def support(self, target: Target, batch: Any) -> Tensor:
        real = self._real(target.padding_id, batch, by_token=target.by_token)
        real = real.to(target.device, target.dtype)
        return real[..., None].expand(*real.shape, *target.shape)

    def shift(self, model: nn.Module, target: Target, delta: Tensor) -> Perturbation:
        return OutputShift(target.module, delta, call=self.call)

    def _ids(self, batch: Any) -> Tensor:
        if not isinstance(batch, Mapping) or self.input_ids not in batch:
            has = f"has {sorted(batch)}" if isinstance(batch, Mapping) else f"is a {type(batch).__name__}"
            raise InputError(
                f"no {self.input_ids!r} in the batch, which {has}: pass a dict, and the key of its token ids "
                "as site=Embeddings(input_ids='...')"
            )
        ids: Tensor = batch[self.input_ids]
        return ids.reshape(-1, ids.shape[-1])

    def _real(self, padding_id: int | None, batch: Any, *, by_token: bool) -> Tensor:
        ids = self._ids(batch)
        if not by_token:
            return torch.ones(ids.shape[0], device=ids.device)
        mask = batch.get(self.mask)
        if mask is not None and mask.numel() == ids.numel():
            real: Tensor = mask.reshape(ids.shape) != 0
        elif padding_id is not None:
            real = ids != padding_id
        else:
            real = torch.ones_like(ids)
        return real.to(torch.float32)


@dataclass(frozen=True)
class Embeddings(_Activations):
    """The output of the word embeddings: the default. An encoder-decoder's encoder's only.

    `input_ids` stay in the call, so that positions, types and what else the model makes of them stay as they
    are.
    """

    def find(self, model: nn.Module) -> tuple[str, nn.Module]:
        return anatomy.word_embeddings(model)


@dataclass(frozen=True)
class Output(_Activations):
    """The output of any module, by its name in `model.named_modules()`: a layer, a pooler, all embeddings."""

    module: str

    def find(self, model: nn.Module) -> tuple[str, nn.Module]:
        return self.module, anatomy.module_named(model, self.module)


@dataclass(frozen=True)
class Weight(Site):
    """A parameter, by its name in `model.named_parameters()`, or the embedding matrix.

    The idiom of copied FGM and PGD code. The batch shares one perturbation; a token moves alike wherever it
    occurs; a tied output layer moves too.

    Args:
        name: the parameter's name; the matrix of the word embeddings where none is given.
    """

    name: str = ""
    per_example: ClassVar[bool] = False

    def find(self, model: nn.Module) -> tuple[str, nn.Module]:
        name = self.name
        if not name:
            owner, _ = anatomy.word_embeddings(model)
            name = f"{owner}.weight" if owner else "weight"
        anatomy.parameter_named(model, name)
        return name, anatomy.module_named(model, name.rpartition(".")[0])

    def target(self, model: nn.Module, batch: Any, outputs: Sequence[Any]) -> Target:
        name, module = self.find(model)
        weight = anatomy.parameter_named(model, name)
        if weight.numel() == 0:
            raise InputError(f"{name} is empty here, as under ZeRO-3: perturb activations, site=Embeddings()")
        wide = torch.promote_types(weight.dtype, torch.float32)
        norm = float(torch.linalg.vector_norm(weight.detach().to(wide), dim=-1).mean())
        shape = tuple(weight.shape)
        return Target(name, module, shape, by_token=False, dtype=wide, device=weight.device, norm=norm)

    def support(self, target: Target, batch: Any) -> Tensor:
        return torch.ones(1, *target.shape, dtype=target.dtype, device=target.device)

    def shift(self, model: nn.Module, target: Target, delta: Tensor) -> Perturbation:
        return WeightShift(anatomy.unwrap(model), {target.name: delta[0]})
