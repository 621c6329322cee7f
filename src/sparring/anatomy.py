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

    def get_input_embeddings(self) -> nn.Module | None: ...


@runtime_checkable
class HasEncoder(Protocol):
    """Hugging Face's protocol of encoder-decoder models."""

    config: Any

    def get_encoder(self) -> nn.Module: ...


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside DistributedDataParallel, torch.compile and their like: one child of a known name."""
    while len(model._modules) == 1 and (name := next(iter(model._modules))) in WRAPPED:
        inner = model._modules[name]
        assert inner is not None
        model = inner
    return model


def word_embeddings(model: nn.Module) -> tuple[str, nn.Module]:
    """The name and the module that turns token ids into vectors; an encoder-decoder's encoder's.

    It is what `get_input_embeddings()` of the model, or of the one Hugging Face model in it, says; else the
    only `nn.Embedding` in the model.

    Raises:
        InputError: there is none, or several could be meant.
    """
    model = unwrap(model)
    named = [module for owner in _owners(model) if (module := _input_embeddings(owner)) is not None]
    found = named or [module for module in model.modules() if isinstance(module, nn.Embedding)]
    if len(found) == 1:
        return name_of(model, found[0]), found[0]
    names = ", ".join(name_of(model, module) for module in found)
    what = f"several embeddings ({names})" if found else "no word embeddings"
    raise InputError(
        f"{type(model).__name__} has {what}: say where to perturb, site=Output('name of a module') or "
        "get_input_embeddings() on the model"
    )


def _owners(model: nn.Module) -> list[nn.Module]:
    """The outermost modules that say what their word embeddings are."""
    if isinstance(model, HasInputEmbeddings):
        return [model]
    return [owner for child in model.children() for owner in _owners(child)]


def _input_embeddings(owner: nn.Module) -> nn.Module | None:
    if isinstance(owner, HasEncoder) and owner.config.is_encoder_decoder:
        owner = owner.get_encoder()
    if not isinstance(owner, HasInputEmbeddings):
        return None
    try:
        return owner.get_input_embeddings()
    except NotImplementedError:
        return None


def padding_id(model: nn.Module, module: nn.Module) -> int | None:
    """The token id of padding: `padding_idx` of the word embeddings, or of `module` where there are none."""
    try:
        _, words = word_embeddings(model)
    except InputError:
        words = module
    return words.padding_idx if isinstance(words, nn.Embedding) else None


def name_of(model: nn.Module, module: nn.Module) -> str:
    """The first name under which `model` knows `module`."""
    names: dict[nn.Module, str] = {candidate: name for name, candidate in model.named_modules()}
    if module in names:
        return names[module]
    raise InputError(f"{type(module).__name__} is no module of {type(model).__name__}")


def module_named(model: nn.Module, name: str) -> nn.Module:
    """The module of that name; names are those of `model.named_modules()`."""
    found: dict[str, nn.Module] = dict(unwrap(model).named_modules())
    return _named("module", name, found, type(unwrap(model)).__name__)


def parameter_named(model: nn.Module, name: str) -> nn.Parameter:
    """The parameter of that name, as in `model.named_parameters()`; a tied weight has several."""
    found = dict(unwrap(model).named_parameters(remove_duplicate=False))
    return _named("parameter", name, found, type(unwrap(model)).__name__)


def _named(kind: str, name: str, found: dict[str, T], owner: str) -> T:
    if name in found:
        return found[name]
    near = get_close_matches(name, found, n=1)
    raise InputError(f"{owner} has no {kind} {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))
