"""Tiny models of every kind, each with a batch of five texts, padding of unequal length, and dropout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

TEXTS, TOKENS, VOCABULARY, CLASSES = 5, 7, 24, 3
LENGTHS = torch.tensor([7, 4, 1, 6, 3])


@dataclass
class Subject:
    """A model, a batch for it, places inside of it, and what check_method wants to know of both."""

    model: nn.Module
    batch: dict[str, Tensor]
    layer: str = ""  # a module that returns a vector per token, in a checkpointed block where there is one
    weight: str = ""  # a parameter, too
    row: str = ""  # a module that returns a vector per text
    pad_id: int = 0
    items: Callable[[dict[str, Tensor]], float] = lambda batch: len(batch["input_ids"])
    tolerance: float = 1e-9


def texts(*, pad_id: int = 0, left: bool = False, labels: Tensor | None = None) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    mask = (torch.arange(TOKENS) < LENGTHS[:, None]).long()
    mask = mask.flip(1) if left else mask
    ids = torch.randint(4, VOCABULARY, (TEXTS, TOKENS), generator=generator).where(mask == 1, pad_id)
    labels = torch.tensor([0, 1, 2, 1, 0]) if labels is None else labels
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def positions(batch: dict[str, Tensor]) -> Tensor:
    return (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)


def labels_that_count(batch: dict[str, Tensor]) -> float:
    return float((batch["labels"] != -100).sum())


def labels_that_are_predicted(batch: dict[str, Tensor]) -> float:
    return float((batch["labels"][:, 1:] != -100).sum())


def built(kind: Callable[[Any], nn.Module], config: Any) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(config).double()


ENCODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 20,
    "num_labels": CLASSES,
}


def bert() -> Subject:
    model = built(transformers.BertForSequenceClassification, transformers.BertConfig(**ENCODER))
    return Subject(
        model,
        texts(),
        layer="bert.encoder.layer.0.attention.output",
        weight="bert.encoder.layer.1.output.dense.weight",
        row="bert.pooler",
    )


def roberta_padded_on_the_left() -> Subject:
    config = transformers.RobertaConfig(**{**ENCODER, "num_hidden_layers": 1}, pad_token_id=1)
    model = built(transformers.RobertaForTokenClassification, config)
    batch = texts(pad_id=1, left=True)
    batch["labels"] = (batch["input_ids"] % CLASSES).where(batch["attention_mask"] == 1, -100)
    return Subject(
        model,
        batch,
        layer="roberta.encoder.layer.0.output",
        weight="roberta.encoder.layer.0.intermediate.dense.weight",
        pad_id=1,
        items=labels_that_count,
    )


def distilbert() -> Subject:
    config = transformers.DistilBertConfig(
        vocab_size=VOCABULARY,
        dim=12,
        n_layers=1,
        n_heads=2,
        hidden_dim=16,
        max_position_embeddings=20,
        num_labels=CLASSES,
    )
    model = built(transformers.DistilBertForSequenceClassification, config)
    return Subject(
        model,
        texts(),
        layer="distilbert.transformer.layer.0.ffn",
        weight="distilbert.transformer.layer.0.attention.v_lin.weight",
        row="pre_classifier",
    )


def albert() -> Subject:
    config = transformers.AlbertConfig(**ENCODER, embedding_size=8)
    model = built(transformers.AlbertForSequenceClassification, config)
    return Subject(
        model,
        texts(),
        layer="albert.encoder.albert_layer_groups.0.albert_layers.0.attention",
        weight="albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight",
        row="albert.pooler",
    )


GPT2 = {
    "vocab_size": VOCABULARY,
    "n_embd": 12,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 20,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "use_cache": False,
    "eos_token_id": 1,
}


def gpt2_classifier() -> Subject:
    config = transformers.GPT2Config(**{**GPT2, "n_layer": 1}, num_labels=CLASSES)
    model = built(transformers.GPT2ForSequenceClassification, config)
    batch = texts(left=True)
    return Subject(
        model,
        {**batch, "position_ids": positions(batch)},
        layer="transformer.h.0.mlp",
        weight="transformer.h.0.mlp.c_fc.weight",
    )


def gpt2_language_model() -> Subject:
    model = built(transformers.GPT2LMHeadModel, transformers.GPT2Config(**GPT2))
    batch = texts()
    batch["labels"] = batch["input_ids"].where(batch["attention_mask"] == 1, -100)
    batch["labels"][:, 0] = -100  # padded on the left, its first token would be predicted
    batch["position_ids"] = positions(batch)
    return Subject(
        model,
        batch,
        layer="transformer.h.1.attn",
        weight="lm_head.weight",
        items=labels_that_are_predicted,
        tolerance=1e-6,
    )


T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 12,
    "d_kv": 6,
    "d_ff": 16,
    "num_layers": 1,
    "num_heads": 2,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
    "use_cache": False,
}


def t5_classifier() -> Subject:
    model = built(transformers.T5ForSequenceClassification, transformers.T5Config(**T5, num_labels=CLASSES))
    batch = texts()
    last = LENGTHS - 1
    batch["input_ids"][torch.arange(TEXTS), last] = 1  # it reads the token that ends the text
    return Subject(model, batch, tolerance=1e-6)


def t5_sequence_to_sequence() -> Subject:
    model = built(transformers.T5ForConditionalGeneration, transformers.T5Config(**T5))
    labels = torch.randint(4, VOCABULARY, (TEXTS, 4), generator=torch.Generator().manual_seed(1))
    labels[1, 2:] = labels[3, 1:] = -100
    return Subject(
        model,
        texts(labels=labels),
        layer="encoder.block.0.layer.1",
        weight="decoder.block.0.layer.1.EncDecAttention.v.weight",
        items=labels_that_count,
        tolerance=1e-6,
    )


class LSTMClassifier(nn.Module):
    """No transformer: no attention mask, no configuration; padding is what `padding_idx` says."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 8, padding_idx=0)
        self.dropout = nn.Dropout(0.1)
        self.reader = nn.LSTM(8, 10, batch_first=True, bias=False)  # without bias it waits through padding
        self.head = nn.Linear(10, CLASSES)

    def forward(self, input_ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        real = (input_ids != 0)[..., None].to(self.head.weight.dtype)
        with torch.autocast("cpu", enabled=False):  # which oneDNN has no LSTM for
            states, _ = self.reader(self.dropout(self.words(input_ids)))
        logits = self.head((states * real).sum(1) / real.sum(1).clamp(min=1))
        return F.cross_entropy(logits, labels), logits


def lstm() -> Subject:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LSTMClassifier().double()
    batch = texts()
    del batch["attention_mask"]
    return Subject(model, batch, layer="reader", weight="head.weight", row="head")


MODELS: dict[str, Callable[[], Subject]] = {
    "BERT": bert,
    "RoBERTa, padded on the left": roberta_padded_on_the_left,
    "DistilBERT": distilbert,
    "ALBERT": albert,
    "GPT-2 classifier": gpt2_classifier,
    "GPT-2 language model": gpt2_language_model,
    "T5 classifier": t5_classifier,
    "T5 sequence to sequence": t5_sequence_to_sequence,
    "LSTM": lstm,
}
