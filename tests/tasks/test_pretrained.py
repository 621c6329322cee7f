from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoConfig,
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2Model,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from sparring.data import LabelSet
from sparring.errors import InputError
from sparring.tasks.classification import load_model
from sparring.tasks.pretrained import loading

LABELS = LabelSet(("neg", "pos"))


def refusal(folder: Path | str, labels: LabelSet | None = LABELS) -> str:
    with pytest.raises(InputError) as caught:
        load_model(folder, labels)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_without_weights_is_refused(encoder: Path) -> None:
    (encoder / "model.safetensors").unlink()
    assert (
        refusal(encoder)
        == f"{encoder} holds a model's config.json, but no weights: model.safetensors is missing"
    )


def test_a_folder_without_a_configuration_is_refused(encoder: Path) -> None:
    (encoder / "config.json").unlink()
    assert (
        refusal(encoder) == f"{encoder} holds no model: it has no config.json, which save_pretrained writes"
    )


def test_a_folder_without_a_tokenizer_is_refused(encoder: Path) -> None:
    """transformers 5 gives a tokenizer that knows the special tokens only: every text would be unknown."""
    for file in encoder.glob("tokenizer*"):
        file.unlink()
    assert "tokenizer" in refusal(encoder)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{", "not a valid JSON file"),
        ("{}", "model_type"),
        ('{"model_type": "no-such-kind"}', "no-such-kind"),
        ('{"model_type": "vit"}', "Unrecognized configuration class"),
    ],
)
def test_a_broken_configuration_is_refused(encoder: Path, content: str, what: str) -> None:
    (encoder / "config.json").write_text(content)
    message = refusal(encoder)
    assert message.startswith(f"{encoder} can't be loaded: ")
    assert what in message


def test_broken_weights_are_refused(encoder: Path) -> None:
    whole = (encoder / "model.safetensors").read_bytes()
    (encoder / "model.safetensors").write_bytes(whole[:-1000])
    assert refusal(encoder).startswith(f"{encoder} can't be loaded: ")


def test_a_broken_tokenizer_is_refused(encoder: Path) -> None:
    (encoder / "tokenizer.json").write_text("{}")
    assert refusal(encoder).startswith(f"{encoder} can't be loaded: ")


def test_weights_of_another_model_are_refused(encoder: Path, tmp_path: Path) -> None:
    GPT2Model(
        GPT2Config(vocab_size=12, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    ).save_pretrained(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "model.safetensors", encoder)
    message = refusal(encoder)
    assert message.startswith(
        f"{encoder}: its weights aren't those of its config.json's BertForSequenceClassification"
    )
    assert "bert.embeddings.LayerNorm.bias is missing" in message


def test_weights_of_another_size_are_refused(encoder: Path) -> None:
    config = json.loads((encoder / "config.json").read_text())
    (encoder / "config.json").write_text(json.dumps({**config, "vocab_size": 13}))
    assert "bert.embeddings.word_embeddings.weight is missing or has another size" in refusal(encoder)


def test_a_folder_that_is_not_there_is_named_with_the_nearest(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refusal(tmp_path / "encodre") == f"there is no folder {tmp_path}/encodre; did you mean 'encoder'?"
    assert refusal(encoder / "config.json") == f"{encoder}/config.json is a file: give the folder of a model"
    monkeypatch.chdir(tmp_path)
    assert refusal("encoder/model") == "there is no folder encoder/model: check the name"
    assert refusal("../no/such") == "there is no folder ../no/such: there is no folder ../no"


def test_a_hub_model_that_cannot_be_had_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_args, **_given) -> None:
        raise OSError("We couldn't connect to the hub.\nCheck your connection.")

    monkeypatch.setattr(AutoConfig, "from_pretrained", offline)
    assert refusal("nobody/no-such-model") == (
        "there is no folder nobody/no-such-model, and as a model of the hub it can't be loaded: "
        "We couldn't connect to the hub"
    )


def test_a_pooler_that_is_missing_is_new(encoder: Path, small) -> None:
    """As of sentence-transformers' MiniLM-L3, and of every model pretrained on masked words."""
    from transformers import BertModel

    BertModel(BertConfig(**small), add_pooling_layer=False).save_pretrained(encoder)
    model, _ = load_model(encoder, LABELS)
    assert model.bert.pooler.dense.weight.std() > 0


def test_a_head_of_another_task_is_replaced_by_a_new_one(encoder: Path, small) -> None:
    BertForTokenClassification(BertConfig(**small, num_labels=9)).save_pretrained(encoder)
    heads = []
    for _ in range(2):
        torch.manual_seed(3)
        heads.append(load_model(encoder, LABELS)[0].classifier.weight)
    assert heads[0].shape == (2, 32)
    assert heads[0].equal(heads[1])


def test_a_model_without_a_trained_head_is_no_classifier_yet(encoder: Path) -> None:
    message = f"{encoder} has no trained classification head: classifier.bias is missing; train it first"
    assert refusal(encoder, None) == message


def test_a_head_for_other_labels_is_refused(encoder: Path, small) -> None:
    names = {0: "entailment", 1: "neutral", 2: "contradiction"}
    config = BertConfig(**small, id2label=names, label2id={name: i for i, name in names.items()})
    BertForSequenceClassification(config).save_pretrained(encoder)
    assert refusal(encoder) == (
        f"{encoder} has a head for 3 labels ('entailment', 'neutral', 'contradiction'), but the data have "
        "2 ('neg', 'pos'): choose a model without a head, or other data"
    )
    assert load_model(encoder)[0].config.id2label == names


def test_a_regression_head_is_refused(encoder: Path, small) -> None:
    BertForSequenceClassification(BertConfig(**small, num_labels=1)).save_pretrained(encoder)
    for labels in (LABELS, None):
        assert refusal(encoder, labels).endswith(
            "has a head of one output, so it is no classifier: choose another model"
        )


def test_a_tokenizer_without_a_pad_token_pads_with_its_end_token(tmp_path: Path, tokenizer) -> None:
    GPT2Model(
        GPT2Config(vocab_size=12, n_embd=8, n_layer=1, n_head=2, bos_token_id=3, eos_token_id=3)
    ).save_pretrained(tmp_path)
    backend = tokenizer.backend_tokenizer
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="[SEP]", unk_token="[UNK]").save_pretrained(
        tmp_path
    )
    model, found = load_model(tmp_path, LABELS)
    assert found.pad_token == "[SEP]"
    assert model.config.pad_token_id == found.pad_token_id == 3
    PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]").save_pretrained(tmp_path)
    assert "no pad and no end-of-text token" in refusal(tmp_path)


def test_a_folder_whose_weights_have_no_pooler_loads_where_it_needs_none(tmp_path: Path, tokenizer) -> None:
    DistilBertModel(
        DistilBertConfig(vocab_size=12, dim=8, n_layers=1, n_heads=2, hidden_dim=8)
    ).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert load_model(tmp_path, LABELS)[0].config.num_labels == 2


def test_transformers_is_quiet_inside_and_as_before_afterwards(
    encoder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logging.set_verbosity_warning()
    logging.enable_progress_bar()
    capfd.readouterr()
    load_model(encoder, LABELS)
    assert capfd.readouterr().err == ""
    with loading(str(encoder)):
        assert not logging.is_progress_bar_enabled()
    refusal(encoder, None)
    with pytest.raises(ZeroDivisionError), loading(str(encoder)):
        _ = 1 / 0
    assert logging.get_verbosity() == logging.WARNING
    assert logging.is_progress_bar_enabled()
