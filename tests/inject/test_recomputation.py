"""Where gradient checkpointing recomputes a forward, the perturbation is in it: the gradients are the same.

huggingface/peft#2826: hook state gone when a block is recomputed gives wrong gradients and no error.
"""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sparring import FGM, L2, PGD, Embeddings, FreeLB, InputError, Method, Output, Passes, Weight
from sparring.game import Game
from tests import tiny
from tests.tiny import assert_close

METHODS = {
    "fgm": (FGM, {"epsilon": 0.5}),
    "pgd": (PGD, {"steps": 2, "step_size": 0.3, "start": 0.2, "ball": L2(0.5), "clean_weight": 0.5}),
    "freelb": (FreeLB, {"steps": 3, "step_size": 0.3, "start": 0.2, "ball": L2(0.5)}),
}
INNER = "bert.encoder.layer.0.output.dense"
SITES = {
    "embeddings": Embeddings(),
    "inside a block": Output(INNER),
    "a block": Output("bert.encoder.layer.0"),
    "a block's weight": Weight(f"{INNER}.weight"),
    "the matrix": Weight(),
}


def run(method: Method, model: nn.Module) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(1)
    return method(model, tiny.batch()), tiny.gradients(model)


def method_of(name: str, site) -> Method:
    kind, arguments = METHODS[name]
    return kind(**arguments, site=site, unit=1.0)


@contextmanager
def counted(module: nn.Module):
    """How often the module is called."""
    calls = []
    handle = module.register_forward_hook(lambda *_: calls.append(None))
    yield calls
    handle.remove()


# -- Hugging Face's checkpointing ----------------------------------------------------------------------------


def assert_checkpointed_agrees(method: str, site, *, reentrant: bool) -> None:
    model = tiny.checkpointed(tiny.bert(dropout=0.2), reentrant=reentrant)
    functions = [vars(module).get("_gradient_checkpointing_func") for module in model.modules()]
    with counted(model.get_submodule(INNER)) as calls:
        loss, gradients = run(method_of(method, site), model)
    plain = tiny.bert(dropout=0.2)
    with counted(plain.get_submodule(INNER)) as plain_calls:
        expected_loss, expected = run(method_of(method, site), plain)
    assert len(calls) > len(plain_calls)  # something was recomputed
    assert_close(loss, expected_loss)
    assert_close(gradients, expected)
    assert functions == [vars(module).get("_gradient_checkpointing_func") for module in model.modules()]


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("method", METHODS)
def test_checkpointed_gradients_are_the_unchecked_ones(method, site, reentrant):
    """pytorch/pytorch#51743: the re-entrant kind forbids `autograd.grad`, which PGD needs."""
    assert_checkpointed_agrees(method, SITES[site], reentrant=reentrant)


@pytest.mark.parametrize("site", ["inside a block", "a block's weight"])
@pytest.mark.parametrize("method", METHODS)
def test_recomputed_without_the_perturbation_they_are_not(method, site, monkeypatch):
    @contextmanager
    def lost(_model, _perturbation):
        yield True

    monkeypatch.setattr("sparring.game.recomputed_under", lost)
    with pytest.raises(AssertionError):
        assert_checkpointed_agrees(method, SITES[site], reentrant=False)


def test_checkpointing_is_restored_when_a_forward_raises():
    model = tiny.checkpointed(tiny.bert(), reentrant=False)
    before = [vars(module).get("_gradient_checkpointing_func") for module in model.modules()]
    method, calls = FGM(), []

    def breaks(model, batch):
        calls.append(None)
        if len(calls) > 3:  # behind the probe's
            raise RuntimeError("out of memory")
        return model(**batch)

    with pytest.raises(RuntimeError, match="out of memory"):
        method(model, tiny.batch(), forward=breaks)
    assert before == [vars(module).get("_gradient_checkpointing_func") for module in model.modules()]


class Together(Method):
    """Several forwards, each with its own perturbation, and one backward."""

    def __init__(self, *, sizes: tuple[float | None, ...], **common) -> None:
        super().__init__(**common)
        self.sizes = sizes

    def play(self, game: Game) -> Tensor:
        noise = torch.randn(game.support().shape, generator=torch.Generator().manual_seed(1)).double()
        losses = [game.loss(None if size is None else size * noise * game.support()) for size in self.sizes]
        game.backward(total := sum(losses))
        return total

    @property
    def passes(self) -> Passes:
        return Passes(full=len(self.sizes))


@pytest.mark.parametrize("sizes", [(None, 0.1), (0.1, None), (0.1, 0.3)])
@pytest.mark.parametrize("reentrant", [True, False])
def test_several_passes_pending_are_each_recomputed_under_their_own(sizes, reentrant):
    method = Together(sizes=sizes, site=Output(INNER), unit=1.0)
    _, expected = run(method, tiny.bert())
    _, gradients = run(method, tiny.checkpointed(tiny.bert(), reentrant=reentrant))
    assert_close(gradients, expected)


# -- a module's own ------------------------------------------------------------------------------------------


class Checkpointing(nn.Module):
    """A classifier that runs its block through torch's checkpoint by itself, once or more often."""

    def __init__(self, *, times: int = 1) -> None:
        super().__init__()
        self.words = nn.Embedding(tiny.VOCABULARY, 8)
        self.inner = nn.Linear(8, 8)
        self.outer = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)
        self.times = times
        self.reentrant: bool | None = None  # None: no checkpointing

    def block(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(self.outer(self.inner(x).tanh()).tanh(), 0.2, self.training)

    def forward(self, input_ids, attention_mask, labels):
        x = self.words(input_ids)
        for _ in range(self.times):
            if self.reentrant is None or not self.training:
                x = self.block(x)
            else:
                x = checkpoint(self.block, x, use_reentrant=self.reentrant)
        logits = self.head(x.mean(1))
        return nn.functional.cross_entropy(logits, labels), logits


OWN_SITES = {
    "embeddings": Embeddings(),
    "inside the block": Output("inner"),
    "the block's weight": Weight("inner.weight"),
}


def own(*, reentrant: bool | None, times: int = 1) -> Checkpointing:
    model = tiny.made(Checkpointing, seed=0, times=times)
    model.reentrant = reentrant
    return model


def assert_own_agrees(method: str, site, *, reentrant: bool) -> None:
    with counted((model := own(reentrant=reentrant)).outer) as calls:
        loss, gradients = run(method_of(method, site), model)
    expected_loss, expected = run(method_of(method, site), own(reentrant=None))
    assert len(calls) > 3 + method_of(method, site).passes.full
    assert_close(loss, expected_loss)
    assert_close(gradients, expected)


@pytest.mark.parametrize("site", OWN_SITES)
@pytest.mark.parametrize(
    ("method", "reentrant"),
    [("fgm", False), ("pgd", False), ("freelb", False), ("fgm", True), ("freelb", True)],
)
def test_a_module_that_checkpoints_by_itself_gives_the_same_gradients(method, reentrant, site):
    assert_own_agrees(method, OWN_SITES[site], reentrant=reentrant)


@pytest.mark.parametrize("site", ["inside the block", "the block's weight"])
@pytest.mark.parametrize("method", METHODS)
def test_without_the_perturbation_in_the_backward_it_does_not(method, site, monkeypatch):
    @contextmanager
    def lost(_game):
        yield

    monkeypatch.setattr(Game, "recomputable", lost)
    with pytest.raises(AssertionError):
        assert_own_agrees(method, OWN_SITES[site], reentrant=False)


def test_its_own_reentrant_checkpoint_with_autograd_grad_is_torchs_error():
    with pytest.raises(RuntimeError, match=r"compatible with \.grad\(\)"):
        run(method_of("pgd", Embeddings()), own(reentrant=True))


@pytest.mark.parametrize(
    ("sizes", "times"),
    [((0.1,), 2), ((None, 0.1), 1), ((0.1, None), 1), ((0.1, 0.3), 1)],
)
def test_what_it_cannot_tell_apart_is_an_error_and_no_wrong_gradient(sizes, times):
    model = own(reentrant=False, times=times)
    method = Together(sizes=sizes, site=Output("inner"))
    with pytest.raises(
        InputError, match="Checkpointing recomputes inner by torch's checkpoint, and doesn't tell"
    ):
        run(method, model)


@pytest.mark.parametrize("sizes", [(None, 0.1), (0.1, 0.3)])
def test_a_site_before_its_blocks_is_none_of_that(sizes):
    method = Together(sizes=sizes, unit=1.0)
    _, expected = run(method, own(reentrant=None))
    _, gradients = run(method, own(reentrant=False))
    assert_close(gradients, expected)
