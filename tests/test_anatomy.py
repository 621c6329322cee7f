"""The parts of a model are found by what the model says; else an error says what to pass."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import T5Config, T5ForConditionalGeneration

from sparring import InputError
from sparring.anatomy import module_named, name_of, parameter_named, unwrap, word_embeddings
from tests import tiny


class Wrapping(nn.Module):
    """Like DistributedDataParallel: one child, named `module`."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


class Head(nn.Module):
    """A user's own classifier around a Hugging Face model."""

    def __init__(self, **encoders: nn.Module) -> None:
        super().__init__()
        self.positions = nn.Embedding(7, 3)
        for name, encoder in encoders.items():
            self.add_module(name, encoder)


class Silent(nn.Module):
    """It has the method, but nothing to say."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5, 3)

    def get_input_embeddings(self) -> nn.Module:
        raise NotImplementedError


def t5() -> nn.Module:
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=30, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0
        )
    )


def test_wrappers_come_off_however_many():
    model = tiny.bag()
    assert unwrap(Wrapping(Wrapping(model))) is model
    assert unwrap(torch.compile(Wrapping(model), backend="eager")) is model
    assert unwrap(nn.DataParallel(model)) is model
    assert unwrap(model) is model


def test_a_model_with_one_child_of_another_name_is_no_wrapper():
    model = nn.Sequential(tiny.bag())
    assert unwrap(model) is model


def test_word_embeddings_are_what_the_model_says_they_are():
    model = tiny.bert()
    assert word_embeddings(model) == (
        "bert.embeddings.word_embeddings",
        model.bert.embeddings.word_embeddings,
    )
    assert word_embeddings(Wrapping(model))[0] == "bert.embeddings.word_embeddings"


def test_tied_word_embeddings_are_the_input_ones():
    model = tiny.gpt2()
    assert word_embeddings(model) == ("transformer.wte", model.transformer.wte)


def test_an_encoder_decoders_are_its_encoders():
    model = t5()
    name, module = word_embeddings(model)
    assert module is model.get_encoder().get_input_embeddings()
    assert model.get_submodule(name) is module


def test_they_are_found_in_a_hugging_face_model_inside_ones_own():
    model = Head(encoder=tiny.bert())
    assert word_embeddings(model)[0] == "encoder.bert.embeddings.word_embeddings"


def test_without_a_word_from_the_model_they_are_its_only_embedding():
    model = tiny.bag()
    assert word_embeddings(model) == ("words", model.words)
    assert word_embeddings(Silent())[0] == "words"


def test_a_model_may_be_its_own_embedding():
    model = nn.Embedding(5, 3)
    assert word_embeddings(model) == ("", model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Linear(2, 2), "Linear has no word embeddings: say where to perturb, site=Output"),
        (Head(words=nn.Embedding(5, 3)), r"Head has several embeddings \(positions, words\): say where"),
        (
            Head(first=tiny.bert(), second=tiny.bert()),
            r"several embeddings \(first.bert.embeddings.word_embeddings, second.bert.embeddings.word",
        ),
    ],
)
def test_none_or_several_embeddings_are_an_error_that_says_what_to_pass(model, message):
    """Decem-Y/sohu_text_matching_Rank2#1, Tongjilibo/bert4torch#37."""
    with pytest.raises(InputError, match=message):
        word_embeddings(model)


def test_modules_and_parameters_have_their_names_also_in_a_wrapper():
    model = tiny.gpt2()
    assert module_named(Wrapping(model), "transformer.h.1") is model.transformer.h[1]
    assert parameter_named(Wrapping(model), "transformer.wte.weight") is model.transformer.wte.weight
    assert parameter_named(model, "lm_head.weight") is model.transformer.wte.weight
    assert name_of(model, model.transformer.h[1]) == "transformer.h.1"


@pytest.mark.parametrize(
    ("find", "name", "message"),
    [
        (
            module_named,
            "transformer.h.l",
            "GPT2LMHeadModel has no module 'transformer.h.l': did you mean 'tra",
        ),
        (parameter_named, "transformer.wte.wieght", "no parameter 'transformer.wte.wieght': did you mean"),
        (module_named, "encoder.block.zero", "has no module 'encoder.block.zero'$"),
    ],
)
def test_a_wrong_name_is_an_error_with_the_nearest_one(find, name, message):
    with pytest.raises(InputError, match=message):
        find(tiny.gpt2(), name)


def test_a_foreign_module_has_no_name():
    with pytest.raises(InputError, match="Linear is no module of Bag"):
        name_of(tiny.bag(), nn.Linear(2, 2))
