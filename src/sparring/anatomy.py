"""Find the parts of a model: the model inside its wrappers, its word embeddings, a module by its name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch import nn

from sparring.errors import InputError

T = TypeVar("T")

WRAPPED = ("module", "_orig_mod")  # DDP, DataParallel, FSDP, DeepSpeed; torch.compile


@runtime_checkable
class HasInputEmbeddings(Protocol):
    """Hugging Face's protocol."""

    def get_input_embeddings(self) -> nn.Module: ...


@runtime_checkable
class HasEncoder(Protocol):
    """Hugging Face's protocol of encoder-decoder models."""

    config: Any

    def get_encoder(self) -> nn.Module: ...


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside DistributedDataParallel, torch.compile and their like: wrappers with one child of a known name."""
    while len(model._modules) == 1 and (name := next(iter(model._modules))) in WRAPPED:
        inner = model._modules[name]
        assert inner is not None
        model = inner
    return model


def word_embeddings(model: nn.Module) -> tuple[str, nn.Module]:
    """The name and the module that turns token ids into vectors; an encoder-decoder's encoder's.

    Raises:
        InputError: the model names none, or several could be meant.
    """
    model = unwrap(model)
    owner = model
    if isinstance(model, HasEncoder) and model.config.is_encoder_decoder:
        owner = model.get_encoder()
    if isinstance(owner, HasInputEmbeddings):
        try:
            module = owner.get_input_embeddings()
        except NotImplementedError:
            module = None
        if isinstance(module, nn.Module):
            return name_of(model, module), module
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Embedding)]
    if len(found) == 1:
        return found[0]
    what = f"several embeddings ({', '.join(name for name, _ in found)})" if found else "no word embeddings"
    raise InputError(
        f"{type(model).__name__} has {what}: say where to perturb, site=Output('name of a module') or "
        f"get_input_embeddings() on the model"
    )


def name_of(model: nn.Module, module: nn.Module) -> str:
    """The first name under which `model` knows `module`."""
    for name, candidate in model.named_modules():
        if candidate is module:
            return name
    raise InputError(f"{type(module).__name__} is no module of {type(model).__name__}")


def module_named(model: nn.Module, name: str) -> nn.Module:
    """The module of that name; names are those of `model.named_modules()`."""
    return _named("module", name, dict(unwrap(model).named_modules()), type(unwrap(model)).__name__)


def parameter_named(model: nn.Module, name: str) -> nn.Parameter:
    """The parameter of that name; names are those of `model.named_parameters()`, aliases of tied weights included."""
    found = dict(unwrap(model).named_parameters(remove_duplicate=False))
    return _named("parameter", name, found, type(unwrap(model)).__name__)


def _named(kind: str, name: str, found: dict[str, T], owner: str) -> T:
    if name in found:
        return found[name]
    near = get_close_matches(name, found, n=1)
    raise InputError(f"{owner} has no {kind} {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))
