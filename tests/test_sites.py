"""A site finds its place, knows where it may act, and perturbs just there."""

from __future__ import annotations

from collections import UserDict
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from sparring import Embeddings, InputError, Output, Weight
from sparring.game import call
from sparring.probe import probe
from tests import tiny
from tests.tiny import assert_close

WORDS = "bert.embeddings.word_embeddings"


def found(site, model=None, batch=None):
    model = tiny.bert() if model is None else model
    return probe(model, tiny.batch() if batch is None else batch, site, call)


# -- where ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("site", "name", "shape"),
    [
        (Embeddings(), WORDS, (32,)),
        (Output(WORDS), WORDS, (32,)),
        (Output("bert.encoder.layer.0"), "bert.encoder.layer.0", (32,)),
        (Output("bert.embeddings"), "bert.embeddings", (32,)),
        (Weight(), f"{WORDS}.weight", (50, 32)),
        (Weight("classifier.bias"), "classifier.bias", (3,)),
    ],
)
def test_a_site_finds_its_place(site, name, shape):
    target = found(site)
    assert (target.name, target.shape) == (name, shape)
    assert target.dtype == torch.float64


def test_a_perturbation_is_at_least_float32():
    """zhuchen03/FreeLB#19."""
    batch = tiny.batch()
    assert found(Embeddings(), tiny.bert().bfloat16(), batch).dtype == torch.float32
    assert found(Weight(), tiny.bert().bfloat16(), batch).dtype == torch.float32


def test_only_a_weights_perturbation_is_shared_by_the_batch():
    assert Embeddings().per_example
    assert Output("x").per_example
    assert not Weight().per_example


def test_the_unit_is_the_mean_norm_of_a_real_words_vector():
    model, batch = tiny.bert(), tiny.batch()
    words = model.get_input_embeddings()(batch["input_ids"])[batch["attention_mask"] == 1]
    assert_close(found(Embeddings(), model, batch).norm, words.norm(dim=1).mean().item())


def test_a_matrixs_unit_is_the_mean_norm_of_its_rows():
    model = tiny.bert()
    rows = model.get_input_embeddings().weight
    assert_close(found(Weight(), model).norm, rows.norm(dim=1).mean().item())


# -- support -------------------------------------------------------------------------------------------------


def test_a_perturbation_may_act_on_real_tokens_only():
    batch = tiny.batch()
    support = Embeddings().support(found(Embeddings()), batch)
    assert support.shape == (4, 7, 32)
    assert torch.equal(support, batch["attention_mask"][..., None].double().expand(-1, -1, 32))


@pytest.mark.parametrize("convert", [torch.Tensor.bool, torch.Tensor.float])
def test_the_mask_may_be_bool_or_float(convert):
    batch = tiny.batch()
    target = found(Embeddings())
    converted = {**batch, "attention_mask": convert(batch["attention_mask"])}
    assert torch.equal(Embeddings().support(target, converted), Embeddings().support(target, batch))


def test_without_a_mask_the_padding_token_is_padding():
    batch = tiny.batch()
    target = found(Embeddings())
    bare = {"input_ids": batch["input_ids"]}
    assert torch.equal(Embeddings().support(target, bare), Embeddings().support(target, batch))


def test_without_a_mask_the_padding_token_is_padding_at_every_module():
    site, batch = Output("bert.encoder.layer.0"), tiny.batch()
    bare = {"input_ids": batch["input_ids"]}
    assert torch.equal(site.support(found(site), bare), site.support(found(site), batch))


def test_a_mask_of_another_size_is_none_of_the_tokens():
    """As with a prompt before them, or one value per pair of tokens."""
    batch = tiny.batch()
    longer = {**batch, "attention_mask": torch.ones(4, 9)}
    target = found(Embeddings())
    assert torch.equal(Embeddings().support(target, longer), Embeddings().support(target, batch))


def test_without_a_mask_or_a_padding_token_every_token_is_real():
    batch = tiny.batch()
    support = Embeddings().support(found(Embeddings(), tiny.bag()), {"input_ids": batch["input_ids"]})
    assert support.shape == (4, 7, 8)
    assert support.all()


def test_ids_and_mask_may_have_other_names():
    batch = tiny.batch()
    site = Embeddings(input_ids="words", mask="real")
    renamed = {"words": batch["input_ids"], "real": batch["attention_mask"]}
    target = found(Embeddings())
    assert torch.equal(site.support(target, renamed), Embeddings().support(target, batch))


def test_leading_dimensions_are_flattened_as_models_flatten_them():
    """zhuchen03/FreeLB#8: multiple choice, `[batch, choices, tokens]`."""
    batch = tiny.batch()
    batch["attention_mask"][:, 0] = 0  # not to be guessed from the tokens
    choices = {key: batch[key].reshape(2, 2, 7) for key in ("input_ids", "attention_mask")}
    target = found(Embeddings())
    assert torch.equal(Embeddings().support(target, choices), Embeddings().support(target, batch))


def test_a_batch_need_not_be_a_dict():
    batch = UserDict(tiny.batch())  # as a tokenizer returns
    assert Embeddings().support(found(Embeddings()), batch).shape == (4, 7, 32)


def test_behind_a_pooler_there_is_one_vector_per_sequence():
    site = Output("bert.pooler")
    target = found(site)
    assert not target.by_token
    support = site.support(target, tiny.batch())
    assert support.shape == (4, 32)
    assert support.all()


def test_a_matrix_is_one_example_and_has_no_padding():
    support = Weight().support(found(Weight()), tiny.batch())
    assert support.shape == (1, 50, 32)
    assert support.all()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (
            {"ids": torch.ones(2, 3)},
            r"no 'input_ids' in the batch, which has \['ids'\]: pass a dict, and the key",
        ),
        (torch.ones(2, 3), "no 'input_ids' in the batch, which is a Tensor"),
    ],
)
def test_a_batch_without_token_ids_is_an_error_that_says_what_to_pass(batch, message):
    with pytest.raises(InputError, match=message):
        Embeddings().support(found(Embeddings()), batch)


# -- shift ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("site", [Embeddings(), Output("bert.encoder.layer.0"), Output("bert.pooler")])
def test_the_output_is_moved_by_the_perturbation(site):
    model, batch = tiny.bert(dropout=0.0), tiny.batch()
    target = found(site, model, batch)
    delta = torch.randn_like(site.support(target, batch))
    seen = []

    def note(_module, _args, output):
        seen.append(output[0] if isinstance(output, tuple) else output)

    with torch.no_grad(), site.shift(model, target, delta):
        target.module.register_forward_hook(note)  # after the shift's own
        model(**batch)
    with torch.no_grad():
        model(**batch)
    assert_close(seen[0] - seen[1], delta)


def test_a_weight_reads_as_moved():
    model = tiny.bert()
    before = model.classifier.weight.detach().clone()
    delta = torch.randn(1, 3, 32, dtype=torch.float64)
    with Weight("classifier.weight").shift(model, found(Weight("classifier.weight"), model), delta):
        assert torch.equal(model.classifier.weight, before + delta[0])
    assert torch.equal(model.classifier.weight, before)


class Twice(nn.Module):
    """One embedding called twice, as by an encoder and a decoder that share theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(tiny.VOCABULARY, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, input_ids, decoder_input_ids):
        first, second = self.words(input_ids).tanh(), self.words(decoder_input_ids).square()
        return SimpleNamespace(first=first, second=second, logits=self.head(first.mean(1) + second.mean(1)))


def forward_twice(model, batch):
    return None, model(**batch).logits


@pytest.mark.parametrize(
    ("site", "moved", "still"),
    [
        (Embeddings(), "first", "second"),
        (Embeddings(call=1, input_ids="decoder_input_ids"), "second", "first"),
    ],
)
def test_of_several_calls_the_first_is_meant_or_the_one_given(site, moved, still):
    model = Twice()
    batch = {"input_ids": torch.ones(2, 5).long(), "decoder_input_ids": torch.ones(2, 3).long()}
    target = probe(model, batch, site, forward_twice)
    clean = model(**batch)
    with site.shift(model, target, site.support(target, batch)):
        shifted = model(**batch)
    assert not torch.allclose(getattr(shifted, moved), getattr(clean, moved))
    assert torch.equal(getattr(shifted, still), getattr(clean, still))


def test_a_call_that_doesnt_happen_is_an_error():
    batch = {"input_ids": torch.ones(2, 5).long(), "decoder_input_ids": torch.ones(2, 3).long()}
    with pytest.raises(InputError, match="words is called 2 times in a forward: no call=2"):
        probe(Twice(), batch, Embeddings(call=2), forward_twice)


# -- what can't be perturbed ---------------------------------------------------------------------------------


def test_an_output_that_is_no_vector_per_token_is_refused():
    with pytest.raises(
        InputError, match=r"returns \[4, 7, 3, 2\] for 4 sequences of 7 tokens: not one vector"
    ):
        found(Output("words"), Odd(nn.Unflatten(-1, (3, 2))))


def test_an_output_that_is_no_tensor_is_refused():
    with pytest.raises(InputError, match="the module returns dict, not a tensor or a tuple with one first"):
        found(Output("words"), Odd(Named()))


class Named(nn.Module):
    def forward(self, x):
        return {"x": x}


class Odd(nn.Module):
    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        self.words = nn.Sequential(nn.Embedding(tiny.VOCABULARY, 6), last)

    def forward(self, input_ids, **_):
        self.words(input_ids)
        return {"logits": torch.zeros(len(input_ids), 2)}


def test_an_empty_weight_is_refused():
    """huggingface/transformers#32021: under ZeRO-3 it has size 0."""
    model = tiny.bert()
    target = [torch.zeros(4, 7, 32)]
    model.get_input_embeddings().weight = nn.Parameter(torch.zeros(0))
    with pytest.raises(
        InputError, match="is empty here, as under ZeRO-3: perturb activations, site=Embeddings"
    ):
        Weight().target(model, tiny.batch(), target)
