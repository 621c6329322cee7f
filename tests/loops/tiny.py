"""Models of two small layers, and padded batches of random tokens."""

from __future__ import annotations

import resource
from contextlib import contextmanager

import torch
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

VOCABULARY = 40


def classifier(dropout=0.1, seed=0):
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return BertForSequenceClassification(config).eval()  # as from_pretrained gives it


def language_model(dropout=0.1, seed=0):
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=16,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config).eval()


def examples(count, *, words=False):
    """Texts of 3 to 8 tokens, with a class each, or with their own words as labels."""
    draw = torch.Generator().manual_seed(1)
    found = []
    for _ in range(count):
        length = int(torch.randint(3, 9, (), generator=draw))
        ids = torch.randint(1, VOCABULARY, (length,), generator=draw).tolist()
        found.append({"input_ids": ids, "labels": ids if words else ids[0] % 2})
    return found


def collate(texts):
    """One batch, padded on the right; words that are padding count for nothing."""
    longest = max(len(text["input_ids"]) for text in texts)

    def padded(key, filler):
        return torch.tensor([text[key] + [filler] * (longest - len(text["input_ids"])) for text in texts])

    mask = [[1] * len(text["input_ids"]) + [0] * (longest - len(text["input_ids"])) for text in texts]
    words = isinstance(texts[0]["labels"], list)
    labels = padded("labels", -100) if words else torch.tensor([text["labels"] for text in texts])
    return {"input_ids": padded("input_ids", 0), "attention_mask": torch.tensor(mask), "labels": labels}


def loader(count=10, size=2, **kwargs):
    return DataLoader(examples(count), batch_size=size, collate_fn=collate, **kwargs)


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one, other):
    """Whether two state dicts are equal bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def furthest(one, other):
    """The largest difference of two state dicts."""
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@contextmanager
def full_disk(limit=4096):
    """No file may grow beyond `limit` bytes: as on a full disk, writing fails in its midst."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
