"""Single-label classification of a text or a text pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sparring.data.labels import LabelSet
from sparring.data.records import Examples
from sparring.data.wording import listed
from sparring.errors import InputError
from sparring.probe import evaluating
from sparring.tasks.pretrained import check_weights, load_tokenizer, loading

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

Features = list[dict[str, Any]]
"""One dictionary an example: `input_ids`, `attention_mask` and what else the tokenizer gives, not padded."""

BINS = 15
"""Of the calibration error, as in https://arxiv.org/abs/1706.04599."""


def load_model(
    path_or_name: str | Path, labels: LabelSet | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A model in float32, in evaluation mode, and its tokenizer, from a folder or the hub.

    Weights that the checkpoint lacks, the head's and for some encoders a pooler's, are drawn from torch's
    global random numbers; seed these before, for the same head.

    Args:
        path_or_name: a folder that `save_pretrained` wrote, or a hub model.
        labels: to train on; where None, the model must have its head already, and keeps its own.

    Raises:
        InputError: no such model, part of it missing or broken, or a head for other labels.
    """
    from transformers import AutoConfig, AutoModelForSequenceClassification

    name = str(Path(path_or_name).expanduser())
    with loading(name):
        config = AutoConfig.from_pretrained(name)
        _check_head(name, config, labels)
        if labels is not None:
            config.id2label, config.label2id = labels.id2label, labels.label2id
        config.problem_type = "single_label_classification"
        tokenizer = load_tokenizer(name)
        config.pad_token_id = tokenizer.pad_token_id  # GPT-2 finds a text's last token by it
        model, info = AutoModelForSequenceClassification.from_pretrained(
            name, config=config, dtype=torch.float32, output_loading_info=True, ignore_mismatched_sizes=True
        )
    check_weights(name, model, info, new_head=labels is not None)
    return model, tokenizer


def _check_head(name: str, config: PreTrainedConfig, labels: LabelSet | None) -> None:
    """A head that is in the checkpoint has one output a label."""
    if not any(kind.endswith("ForSequenceClassification") for kind in config.architectures or []):
        return
    known = LabelSet.from_config(config.id2label or {})
    if len(known) < 2:
        raise InputError(f"{name} has a head of one output, so it is no classifier: choose another model")
    if labels is not None and len(labels) != len(known):
        raise InputError(
            f"{name} has a head for {len(known)} labels ({listed(known.names)}), but the data have "
            f"{len(labels)} ({listed(labels.names)}): choose a model without a head, or other data"
        )


def features(
    examples: Examples,
    tokenizer: PreTrainedTokenizerBase,
    *,
    max_length: int,
    labels: LabelSet | None = None,
) -> Features:
    """The examples tokenised and cut to `max_length` tokens (of a pair, the longer text first), not padded.

    Args:
        examples: texts or pairs.
        tokenizer: the model's.
        max_length: in tokens, special tokens included.
        labels: where given, `labels` is the example's label id.

    Raises:
        InputError: a length that the model can't have, or a label that it doesn't know.
    """
    special = tokenizer.num_special_tokens_to_add(pair=examples.pairs is not None)
    least, most = special + (1 if examples.pairs is None else 2), tokenizer.model_max_length
    if not least <= max_length <= most:
        raise InputError(
            f"max_length is {max_length}, but for this model must be from {least} to {most} tokens"
        )
    encoded = tokenizer(examples.texts, examples.pairs, truncation=True, max_length=max_length)
    found = [{key: values[i] for key, values in encoded.items()} for i in range(len(examples))]
    if labels is None:
        return found
    return [
        {**feature, "labels": label} for feature, label in zip(found, labels.encode(examples), strict=True)
    ]


def collator(tokenizer: PreTrainedTokenizerBase) -> Callable[[Features], Any]:
    """Makes a batch of features: tensors, padded to the longest."""
    from transformers import DataCollatorWithPadding

    return DataCollatorWithPadding(tokenizer)


def loss(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """Cross-entropy for the Trainer's `compute_loss_func`: the mean over the examples of an optimizer step.

    Transformers' classifiers take `num_items_in_batch` and ignore it, so that under accumulation the Trainer
    adds the means of its micro-batches instead of averaging them.

    Args:
        outputs: the model's; `outputs["logits"]` is `[examples, classes]`.
        labels: class ids, `[examples]`.
        num_items_in_batch: the examples of the optimizer step; None for those of this batch.
    """
    total = F.cross_entropy(outputs["logits"], labels, reduction="sum")
    return total / (len(labels) if num_items_in_batch is None else num_items_in_batch)


def predict(
    model: PreTrainedModel,
    features: Features,
    collate: Callable[[Features], Any],
    *,
    batch_size: int = 64,
) -> Tensor:
    """Logits `[examples, labels]`, on the CPU in float32, in the order of the features.

    Batches are of texts of like length, the longest first: little padding, and too large ones fail early.
    """
    order = sorted(range(len(features)), key=lambda i: len(features[i]["input_ids"]), reverse=True)
    logits = []
    with evaluating(model), torch.no_grad():
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            batch = collate([{key: x for key, x in features[i].items() if key != "labels"} for i in rows])
            logits.append(model(**batch.to(model.device)).logits.float().cpu())
    place = torch.tensor(order).argsort()
    return torch.cat(logits)[place]


def metrics(logits: Tensor, labels: Tensor | Sequence[int]) -> dict[str, float]:
    """Accuracy, macro F1 and expected calibration error, each from 0 to 1.

    F1 is the mean over the classes that occur in labels or predictions. Logits that aren't finite are wrong,
    with confidence 0.

    Args:
        logits: `[examples, classes]`.
        labels: `[examples]`, the right classes.
    """
    labels = torch.as_tensor(labels)
    finite = logits.isfinite().all(1)
    predictions = logits.argmax(1).where(finite, -1)  # not the softmax's: rounding makes ties in it
    confidence = logits.double().softmax(1).amax(1).where(finite, 0)
    right = predictions == labels
    return {
        "accuracy": right.double().mean().item(),
        "macro_f1": _macro_f1(predictions[finite], labels, right, classes=logits.shape[1]),
        "calibration_error": expected_calibration_error(confidence, right),
    }


def _macro_f1(predictions: Tensor, labels: Tensor, right: Tensor, *, classes: int) -> float:
    """The mean over classes of 2 TP / (predicted + labelled), which is 2 PR / (P + R)."""
    hits = labels[right].bincount(minlength=classes)
    either = predictions.bincount(minlength=classes) + labels.bincount(minlength=classes)
    return (2 * hits[either > 0].double() / either[either > 0]).mean().item()


def expected_calibration_error(confidence: Tensor, right: Tensor, bins: int = BINS) -> float:
    """The gap between confidence and accuracy in bins of equal width, weighted by their examples.

    Guo et al. 2017, https://arxiv.org/abs/1706.04599, equation 3. Bin m of M holds ((m-1)/M, m/M].

    Args:
        confidence: `[examples]`, from 0 to 1.
        right: `[examples]`, whether the prediction was right.
        bins: how many.
    """
    place = (confidence * bins).ceil().long().sub(1).clamp(0, bins - 1)
    gaps = place.bincount(right.double() - confidence.double(), minlength=bins)
    return (gaps.abs().sum() / len(confidence)).item()
