"""The methods give the numbers of the published code, which golden/README.md describes, at 1e-10 in float64.

Each case is compared whole: every perturbation, the loss, every gradient. Where the published code clips by a
norm in float32, that is passed as `ball=`; the library's own L2 then agrees to float32's precision.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification

from sparring import FGM, L2, PGD, Embeddings, FreeLB, Method, Weight
from sparring.balls import Ball
from tests.reference.mutations import (
    descending,
    normed_otherwise,
    one_step_less,
    summed,
    unnormalised,
    without_clean_gradient,
)
from tests.reference.published import FairseqL2, HuggingFaceL2, StartingAt
from tests.tiny import assert_close

GOLDEN = Path(__file__).parent / "golden"


FREE = StartingAt()


@dataclass(frozen=True)
class Case:
    """How a method's arguments write the settings of a published run."""

    method: Callable[..., Method]
    ball: Ball = FREE
    start: float = 0.0
    losses: Callable[[dict[str, Tensor]], Tensor] = lambda golden: golden["loss"]

    @property
    def bounded(self) -> bool:
        return isinstance(self.ball, FairseqL2)


CASES = {
    "fgm_embedding_matrix": Case(
        partial(FGM, epsilon=1.0, site=Weight()),
        losses=lambda golden: golden["clean_loss"] + golden["adv_loss"],
    ),
    "fgm_embedding_matrix_small": Case(
        partial(FGM, epsilon=0.1, site=Weight()),
        losses=lambda golden: golden["clean_loss"] + golden["adv_loss"],
    ),
    "pgd_embedding_matrix": Case(
        partial(PGD, steps=3, step_size=0.3, clean_weight=1.0, site=Weight()),
        ball=L2(1.0),
        losses=lambda golden: golden["losses"][0] + golden["losses"][-1],
    ),
    "pgd_l2": Case(partial(PGD, steps=3, step_size=0.1), FairseqL2(0.25), start=0.1),
    "pgd_l2_unbounded": Case(partial(PGD, steps=2, step_size=0.1), start=0.1),
    "freelb_l2": Case(
        partial(FreeLB, steps=3, step_size=0.1),
        start=0.05,
        losses=lambda golden: golden["tr_loss"],
    ),
    "freelb_l2_clip": Case(
        partial(FreeLB, steps=4, step_size=0.3),
        HuggingFaceL2(0.35),
        start=0.2,
        losses=lambda golden: golden["tr_loss"],
    ),
    # K = 3 ascent steps are K + 1 passes there
    "freelb_fairseq_l2": Case(partial(FreeLB, steps=4, step_size=0.1), FairseqL2(0.25), start=0.1),
    "freelb_fairseq_regression": Case(partial(FreeLB, steps=4, step_size=0.1), FairseqL2(0.25), start=0.1),
}


@pytest.mark.parametrize("name", CASES)
def test_a_method_gives_the_published_codes_numbers(name):
    assert_agrees(name, CASES[name])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.bounded])
def test_the_librarys_own_ball_agrees_to_the_published_codes_float32(name):
    case = CASES[name]
    assert_agrees(name, replace(case, ball=StartingAt(case.ball.radius)), tolerance=1e-6)


# -- each branch binds: with a piece of the library broken, the comparison fails -----------------------------


def without_published_clipping(patch):
    patch.setattr(FairseqL2, "project", lambda _, delta: delta)


def starting_at_zero(patch):
    patch.setattr(StartingAt, "spread", lambda _, support, _generator: torch.zeros_like(support))


FREELB = ("freelb_l2", "freelb_l2_clip", "freelb_fairseq_l2", "freelb_fairseq_regression")
BREAKS = [
    *[(name, mutation) for name in CASES for mutation in (descending, unnormalised, normed_otherwise)],
    *[(name, without_published_clipping) for name, case in CASES.items() if case.bounded],
    *[(name, starting_at_zero) for name, case in CASES.items() if case.start],
    *[(name, one_step_less) for name in CASES if "fgm" not in name],
    *[(name, summed) for name in FREELB],
    *[(name, without_clean_gradient) for name in CASES if "matrix" in name],
]


@pytest.mark.parametrize(("name", "mutation"), BREAKS)
def test_a_broken_method_does_not(name, mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        assert_agrees(name, CASES[name])


# -- a run, and the comparison -------------------------------------------------------------------------------


def assert_agrees(name: str, case: Case, *, tolerance: float = 1e-10) -> None:
    golden, settings = read(name)
    model = published_model(settings["model"])
    batch = {key.removeprefix("batch."): value for key, value in golden.items() if key.startswith("batch.")}
    options = {"ball": case.ball, "unit": 1.0}
    if case.start:
        options |= {"start": case.start, "ball": replace(case.ball, start=golden["deltas"][0] / case.start)}
    method = case.method(**options)
    seen = record(method.site, model, batch)
    loss = method(model, batch)
    clean, *perturbed = seen
    found = {key: parameter.grad for key, parameter in model.named_parameters()}
    norms = {key: value.squeeze() for key, value in golden.items() if key.startswith("grad_norm.")}
    whole = {key: value for key, value in golden.items() if key.startswith("grad.")}
    assert_close(torch.stack(perturbed) - clean, expected_deltas(golden), tolerance=tolerance)
    assert_close(loss, case.losses(golden).squeeze(), tolerance=tolerance)
    assert_close({key: found[key.removeprefix("grad.")] for key in whole}, whole, tolerance=tolerance)
    assert_close({f"grad_norm.{key}": grad.norm() for key, grad in found.items()}, norms, tolerance=tolerance)


def expected_deltas(golden: dict[str, Tensor]) -> Tensor:
    """The perturbation of every forward; the matrix runs begin with a clean one."""
    if "deltas" in golden:
        return golden["deltas"]
    later = golden["weight_deltas"] if "weight_deltas" in golden else golden["weight_delta"][None]
    return torch.cat([torch.zeros_like(later[:1]), later])


def record(site: Embeddings | Weight, model: nn.Module, batch: dict[str, Tensor]) -> list[Tensor]:
    """What the module behind the site sees: first without a perturbation, then in each later forward."""
    words, behind = model.bert.embeddings.word_embeddings, model.bert.embeddings.LayerNorm
    seen: list[Tensor] = []

    def note(value: Tensor) -> None:
        if torch.is_grad_enabled():  # the probe's forwards are without
            seen.append(value.detach().clone())

    if isinstance(site, Weight):
        words.register_forward_pre_hook(lambda module, _: note(module.weight))
    else:
        behind.register_forward_pre_hook(lambda _, args: note(args[0]))
    model(**batch)  # what the site gives without a perturbation
    return seen


def read(name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    with safe_open(GOLDEN / f"{name}.safetensors", "pt") as file:
        return load_file(GOLDEN / f"{name}.safetensors"), file.metadata()


def published_model(name: str) -> nn.Module:
    state, metadata = read(name)
    config = BertConfig(**json.loads(metadata["config"]))
    config._attn_implementation = "eager"
    model = BertForSequenceClassification(config).double().train()
    model.load_state_dict(state)
    return model
