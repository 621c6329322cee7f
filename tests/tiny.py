"""Tiny models and padded batches: float64, in training mode, the same weights for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from sparring import Game, Method, Passes

VOCABULARY = 50
LENGTHS = (7, 4, 6, 2)


def bert(*, labels: int = 3, dropout: float = 0.1, layers: int = 2, seed: int = 0, **config) -> nn.Module:
    """A BERT classifier."""
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=16,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        num_labels=labels,
        initializer_range=0.3,  # so that the loss is far from flat
        **config,
    )
    config._attn_implementation = "eager"
    return made(BertForSequenceClassification, config, seed=seed)


def gpt2(*, dropout: float = 0.0, seed: int = 0) -> nn.Module:
    """A causal language model whose output layer is its embedding matrix."""
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=16,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        initializer_range=0.3,
        bos_token_id=1,
        eos_token_id=1,
        pad_token_id=0,
    )
    config._attn_implementation = "eager"
    return made(GPT2LMHeadModel, config, seed=seed)


class Bag(nn.Module):
    """A classifier that is no transformer: the mean of all words, padding included."""

    def __init__(self, *, labels: int = 3, dropout: float = 0.1) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 8)
        self.hidden = nn.Linear(8, 8)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(8, labels)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        logits = self.head(self.dropout(self.hidden(self.words(input_ids)).tanh()).mean(1))
        if labels is None:
            return {"logits": logits}
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def bag(*, seed: int = 0, **options) -> Bag:
    return made(Bag, seed=seed, **options)


class Playing(Method):
    """A method out of one function of the game."""

    def __init__(self, function: Callable[[Game], Tensor], **common) -> None:
        super().__init__(**common)
        self.function = function

    def play(self, game: Game) -> Tensor:
        return self.function(game)

    @property
    def passes(self) -> Passes:
        return Passes()


def made(kind: type[nn.Module], *args, seed: int, **options) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return kind(*args, **options).double().train()


def batch(*, labels: int = 3, seed: int = 0, lengths: tuple[int, ...] = LENGTHS) -> dict[str, Tensor]:
    """Random texts of these lengths, padded on the right with token 0, and their classes."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths))
    mask = (torch.arange(shape[1]) < torch.tensor(lengths)[:, None]).long()
    return {
        "input_ids": torch.randint(1, VOCABULARY, shape, generator=generator) * mask,
        "attention_mask": mask,
        "labels": torch.randint(labels, shape[:1], generator=generator),
    }


def language_batch(*, seed: int = 0) -> dict[str, Tensor]:
    """A batch for a language model: the labels are the tokens, -100 on padding."""
    texts = batch(seed=seed)
    return {**texts, "labels": torch.where(texts["attention_mask"] == 1, texts["input_ids"], -100)}


def checkpointed(model: nn.Module, *, reentrant: bool) -> nn.Module:
    """The Hugging Face model with gradient checkpointing on, of either kind."""
    model._set_gradient_checkpointing(
        gradient_checkpointing_func=partial(checkpoint, use_reentrant=reentrant)
    )
    return model


def gradients(model: nn.Module) -> dict[str, Tensor]:
    """A copy of every gradient, by the parameter's name."""
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_close(actual, expected, *, tolerance: float = 1e-10) -> None:
    """Tensors, numbers, or dicts and lists of them are equal within an absolute tolerance."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)
