"""Divergences between two predictions of one model, chosen by what the logits mean.

Each function takes two tensors of logits and gives one value per item: the last dimension is reduced, the
others stay. It is symmetric where its name says so; gradients flow through both sides; computed in at least
float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from sparring.errors import InputError

Divergence = Callable[[Tensor, Tensor], Tensor]


def kl(p: Tensor, q: Tensor) -> Tensor:
    """`KL(softmax(p) || softmax(q))`: logits `[..., classes]` to `[...]`, in nats."""
    log_p, log_q = _log_softmax(p), _log_softmax(q)
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def symmetric_kl(p: Tensor, q: Tensor) -> Tensor:
    """`KL(p || q) + KL(q || p)`: logits `[..., classes]` to `[...]`."""
    log_p, log_q = _log_softmax(p), _log_softmax(q)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1)


def js(p: Tensor, q: Tensor) -> Tensor:
    """Jensen-Shannon, the mean KL of both to their mixture: symmetric, at most log 2.

    Logits `[..., classes]` to `[...]`.
    """
    log_p, log_q = _log_softmax(p), _log_softmax(q)
    log_m = torch.logaddexp(log_p, log_q) - math.log(2)
    return 0.5 * (log_p.exp() * (log_p - log_m) + log_q.exp() * (log_q - log_m)).sum(-1)


def bernoulli_kl(p: Tensor, q: Tensor) -> Tensor:
    """The KL of independent yes/no labels, summed over them: logits `[..., labels]` to `[...]`.

    For multi-label tasks: a softmax would be blind to a shift common to all labels (bethgelab/foolbox#643).
    """
    p, q = _wide(p), _wide(q)
    on = p.sigmoid() * (F.logsigmoid(p) - F.logsigmoid(q))
    off = (-p).sigmoid() * (F.logsigmoid(-p) - F.logsigmoid(-q))
    return (on + off).sum(-1)


def symmetric_bernoulli_kl(p: Tensor, q: Tensor) -> Tensor:
    """`bernoulli_kl` both ways: logits `[..., labels]` to `[...]`."""
    return bernoulli_kl(p, q) + bernoulli_kl(q, p)


def squared_error(p: Tensor, q: Tensor) -> Tensor:
    """The squared difference, summed over the outputs: predictions `[..., outputs]` to `[...]`."""
    return (_wide(p) - _wide(q)).square().sum(-1)


def spans(divergence: Divergence) -> Divergence:
    """The divergence of a start and an end, added: logits `[batch, 2, tokens]` to `[batch]`."""
    return lambda p, q: divergence(p, q).sum(-1)


def by_task(problem: str, *, classes: int) -> Divergence:
    """The symmetric divergence that fits a task.

    Args:
        problem: `"single_label_classification"`, `"multi_label_classification"` or `"regression"`, as in a
            Hugging Face config.
        classes: the size of the logits' last dimension.

    Raises:
        InputError: a softmax over a single logit, whose divergence is always 0
            (9310gaurav/virtual-adversarial-training#2).
    """
    table = {
        "single_label_classification": symmetric_kl,
        "multi_label_classification": symmetric_bernoulli_kl,
        "regression": squared_error,
    }
    if problem not in table:
        raise InputError(f"problem type {problem!r} is unknown: one of {', '.join(table)}")
    if problem == "single_label_classification" and classes == 1:
        raise InputError(
            "KL over a single logit is always 0: a model with one output is a regression "
            "(problem_type='regression')"
        )
    return table[problem]


def mean_over_items(values: Tensor, valid: Tensor | None = None) -> Tensor:
    """One value per example: the mean over its valid items, 0 where none is. `[batch, ...]` to `[batch]`.

    Args:
        values: what a divergence gave: `[batch]`, or one value per token, `[batch, tokens]`.
        valid: True or 1 where an item counts, shaped like `values` (for labels: `labels != -100`); None for
            all.
    """
    valid = torch.ones_like(values, dtype=torch.bool) if valid is None else valid.bool()
    rows = torch.where(valid, values, 0).reshape(len(values), -1)
    return rows.sum(1) / valid.reshape(len(values), -1).sum(1).clamp(min=1)


def _wide(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _log_softmax(logits: Tensor) -> Tensor:
    if logits.shape[-1] == 1:
        raise InputError("KL over a single logit is always 0: use squared_error for regression")
    return F.log_softmax(_wide(logits), dim=-1)
