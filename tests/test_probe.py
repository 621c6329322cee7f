"""The first batch shows whether a perturbation does what it should, and leaves no trace in the model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sparring import FGM, Embeddings, InputError, Output, Weight
from sparring.game import call
from sparring.probe import evaluating, probe
from tests import tiny

SITES = [Embeddings(), Output("bert.encoder.layer.0"), Output("bert.pooler"), Weight()]


class Bagged(tiny.Bag):
    """A model with one mistake; each subclass makes another."""

    def __init__(self) -> None:
        super().__init__(dropout=0.0)
        self.spare = nn.Embedding(tiny.VOCABULARY, 8)

    def get_input_embeddings(self) -> nn.Module:
        return self.words


class Bypassing(Bagged):
    """It computes from another embedding than the one it names."""

    def get_input_embeddings(self) -> nn.Module:
        return self.spare


class Detached(Bagged):
    """It calls the embedding that it names, and throws the result away."""

    def forward(self, input_ids, **rest):
        self.words(input_ids)
        return {"logits": self.head(self.hidden(self.spare(input_ids)).mean(1))}


class CutOff(Bagged):
    """What follows the embedding has no gradient."""

    def forward(self, input_ids, attention_mask, labels):
        logits = self.head(self.hidden(self.words(input_ids).detach()).tanh().mean(1))
        return nn.functional.cross_entropy(logits, labels), logits


class Unsteady(Bagged):
    """It answers differently each time, in evaluation mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = 0

    def forward(self, input_ids, **rest):
        self.answers += 1
        return {"logits": self.head(self.hidden(self.words(input_ids)).mean(1)) + self.answers}


class Handed(Bagged):
    """Its embedding is wrapped by a hook of its own, which a perturbation has to get past."""

    def __init__(self) -> None:
        super().__init__()
        self.words.register_forward_pre_hook(lambda _module, args: (args[0].clamp(min=0),))
        self.words.register_forward_hook(lambda _module, _args, output: 2 * output)


class Normed(Bagged):
    """Its batch norm keeps running statistics in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, input_ids, **rest):
        return {"logits": self.head(self.norm(self.words(input_ids).mean(1)))}


class AlwaysDropping(Bagged):
    """It draws random numbers in evaluation mode too."""

    def forward(self, input_ids, **rest):
        return {"logits": self.head(nn.functional.dropout(self.words(input_ids), 0.5, training=True).mean(1))}


@pytest.mark.parametrize("site", SITES)
def test_a_usual_model_passes_at_every_site(site):
    assert probe(tiny.bert(), tiny.batch(), site, call).norm > 0


def test_a_model_with_hooks_of_its_own_passes():
    probe(tiny.made(Handed, seed=0), tiny.batch(), Embeddings(), call)


def test_a_model_that_draws_random_numbers_is_compared_on_the_same_ones():
    probe(tiny.made(AlwaysDropping, seed=0), tiny.batch(), Embeddings(), call)


def test_an_embedding_that_isnt_called_is_an_error():
    """Tongjilibo/bert4torch#85: the adversary was built and never attached."""
    with pytest.raises(InputError, match="spare of Bypassing is not called in a forward, so"):
        probe(tiny.made(Bypassing, seed=0), tiny.batch(), Embeddings(), call)


def test_a_perturbation_that_moves_nothing_is_an_error():
    """Tongjilibo/bert4torch#37: after switching to another model the attack silently does nothing."""
    with pytest.raises(InputError, match="a perturbation at words doesn't change the logits of Detached"):
        probe(tiny.made(Detached, seed=0), tiny.batch(), Embeddings(), call)


def test_a_weight_that_moves_nothing_is_an_error():
    with pytest.raises(InputError, match=r"a perturbation at words\.weight doesn't change the logits"):
        probe(tiny.made(Detached, seed=0), tiny.batch(), Weight("words.weight"), call)


def test_a_zero_perturbation_that_changes_the_logits_is_an_error():
    """namisan/mt-dnn#230: positions and norms were applied twice."""
    with pytest.raises(InputError, match="a perturbation of 0 at words changes the logits of Unsteady"):
        probe(tiny.made(Unsteady, seed=0), tiny.batch(), Embeddings(), call)


def test_a_site_that_no_gradient_reaches_is_an_error():
    with pytest.raises(InputError, match="no gradient reaches words: is its output detached"):
        FGM()(tiny.made(CutOff, seed=0), tiny.batch())


def test_a_forward_without_loss_and_logits_is_an_error():
    with pytest.raises(InputError, match="Bag returned neither a loss nor logits: pass forward"):
        probe(tiny.bag(), tiny.batch(), Embeddings(), lambda model, batch: {"hidden": model(**batch)})


def test_a_loss_alone_will_do():
    probe(tiny.bag(), tiny.batch(), Embeddings(), lambda model, batch: model(**batch)["loss"])


def test_logits_alone_will_do():
    batch = tiny.batch()
    del batch["labels"]
    probe(tiny.bag(), batch, Embeddings(), call)


def test_a_batch_of_padding_alone_is_not_held_against_the_site():
    batch = tiny.batch()
    batch["attention_mask"] = torch.zeros_like(batch["attention_mask"])
    probe(tiny.bert(), batch, Embeddings(), call)


def test_a_frozen_embedding_passes():
    """huggingface/peft: adapters freeze it."""
    model = tiny.bert()
    model.get_input_embeddings().weight.requires_grad_(False)
    probe(model, tiny.batch(), Embeddings(), call)


# -- no trace ------------------------------------------------------------------------------------------------


def snapshot(model: nn.Module) -> dict:
    return {
        "modes": [module.training for module in model.modules()],
        "hooks": [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()],
        "attributes": [sorted(vars(module)) for module in model.modules()],
        "gradients": [parameter.grad for parameter in model.parameters()],
        "state": {name: value.clone() for name, value in model.state_dict().items()},
    }


def assert_unchanged(model: nn.Module, before: dict) -> None:
    after = snapshot(model)
    state, wanted = after.pop("state"), before.pop("state")
    assert after == before
    assert list(state) == list(wanted)
    assert all(torch.equal(state[name], value) for name, value in wanted.items())


@pytest.mark.parametrize("site", SITES)
def test_the_probe_leaves_the_model_and_the_random_stream_as_they_were(site):
    model = tiny.bert()
    model.bert.encoder.layer[1].eval()  # as a user with a frozen layer would
    torch.manual_seed(7)
    before, stream = snapshot(model), torch.get_rng_state()
    probe(model, tiny.batch(), site, call)
    assert_unchanged(model, before)
    assert torch.equal(torch.get_rng_state(), stream)


@pytest.mark.parametrize("kind", [Bypassing, Detached, Unsteady])
def test_so_does_one_that_fails(kind):
    model = tiny.made(kind, seed=0)
    torch.manual_seed(7)
    before, stream = snapshot(model), torch.get_rng_state()
    with pytest.raises(InputError):
        probe(model, tiny.batch(), Embeddings(), call)
    assert_unchanged(model, before)
    assert torch.equal(torch.get_rng_state(), stream)


def test_a_probe_of_a_forward_that_breaks_leaves_no_trace():
    calls = []

    def breaks(model, batch):
        calls.append(None)
        if len(calls) == 2:  # the first is the clean one
            raise RuntimeError("out of memory")
        return model(**batch)

    model = tiny.bert()
    torch.manual_seed(7)
    before, stream = snapshot(model), torch.get_rng_state()
    with pytest.raises(RuntimeError, match="out of memory"):
        probe(model, tiny.batch(), Embeddings(), breaks)
    assert_unchanged(model, before)
    assert torch.equal(torch.get_rng_state(), stream)


def test_running_statistics_are_not_updated():
    model = tiny.made(Normed, seed=0)
    before = snapshot(model)
    probe(model, tiny.batch(), Embeddings(), call)
    assert_unchanged(model, before)


def test_evaluation_mode_gives_each_module_its_own_mode_back():
    model = tiny.bert()
    model.bert.encoder.layer[1].eval()
    before = snapshot(model)
    with evaluating(model):
        assert not any(module.training for module in model.modules())
    assert_unchanged(model, before)
