"""The choice of a method on the command line: its name, then its constructor's arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from sparring.errors import InputError

if TYPE_CHECKING:
    from sparring.balls import Ball
    from sparring.method import Method
    from sparring.sites import Site


@dataclass(frozen=True)
class Choice:
    """A method by its name, with its constructor's arguments.

    `ball` and `site` are dictionaries: their `kind`, and its own arguments.
    """

    name: str = "freelb"
    arguments: dict[str, Any] = field(default_factory=dict)

    def build(self, *, seed: int, start_step: int = 0, every: int = 1) -> Method:
        """The method, thinned and delayed as asked.

        Raises:
            InputError: an argument that its constructor refuses.
        """
        from sparring.wrappers import Delayed, Every

        arguments = dict(self.arguments)
        if "ball" in arguments:
            arguments["ball"] = ball_of(**arguments["ball"])
        if "site" in arguments:
            arguments["site"] = _site_of(**arguments["site"])
        method = kind_of(self.name)(seed=seed, **arguments)
        if every != 1:
            method = Every(method, every)
        return Delayed(method, start_step) if start_step != 0 else method

    def as_dict(self) -> dict[str, Any]:
        """As the configuration file writes it."""
        return {"name": self.name, **self.arguments}


def kind_of(name: str) -> type[Method]:
    """The class of a method.

    Raises:
        InputError: there is none of that name.
    """
    from sparring.methods import METHODS

    if name not in METHODS:
        (near,) = get_close_matches(name, METHODS, n=1, cutoff=0.0)
        raise InputError(f"unknown method {name!r}: did you mean {near!r}? `sparring methods` lists them")
    return METHODS[name]


def ball_of(kind: str, **arguments: Any) -> Ball:
    """A ball by the name of its norm: l2, linf or l1."""
    from sparring.balls import L1, L2, Linf

    balls: dict[str, type[L1 | L2 | Linf]] = {"l2": L2, "linf": Linf, "l1": L1}
    return balls[kind](**arguments)


def _site_of(kind: str, *, call: int = 0, module: str | None = None, name: str = "") -> Site:
    from sparring.sites import Embeddings, Output, Weight

    if module is not None and kind != "output":
        raise InputError("--method.site.module names the module of --method.site.kind output")
    if name and kind != "weight":
        raise InputError("--method.site.name names the parameter of --method.site.kind weight")
    if kind == "weight":
        return Weight(name)
    if kind == "embeddings":
        return Embeddings(call=call)
    if module is None:
        raise InputError("--method.site.kind output needs --method.site.module, the module's name")
    return Output(module=module, call=call)
