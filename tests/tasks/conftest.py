from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """Words to numbers, with BERT's special tokens."""
    known = {word: i for i, word in enumerate(WORDS)}
    backend = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.BertProcessing(("[SEP]", known["[SEP]"]), ("[CLS]", known["[CLS]"]))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=16,
    )


@pytest.fixture(scope="session")
def small() -> dict[str, int]:
    return {
        "vocab_size": len(WORDS),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 16,
        "initializer_range": 0.3,
    }


@pytest.fixture(scope="session")
def _encoder(tmp_path_factory, tokenizer, small) -> Path:
    folder = tmp_path_factory.mktemp("models") / "encoder"
    torch.manual_seed(0)
    BertModel(BertConfig(**small)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def encoder(tmp_path: Path, _encoder: Path) -> Path:
    """The folder of a small BERT without a head, the test's own."""
    return Path(shutil.copytree(_encoder, tmp_path / "encoder"))
