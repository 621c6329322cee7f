"""Divergences are torch's and scipy's, symmetric where they say so, with gradients through both sides."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.spatial.distance import jensenshannon
from torch.distributions import Bernoulli, Categorical, kl_divergence

from sparring import InputError, divergences
from sparring.divergences import (
    bernoulli_kl,
    by_task,
    js,
    kl,
    mean_over_items,
    spans,
    squared_error,
    symmetric_bernoulli_kl,
    symmetric_kl,
)
from tests.tiny import assert_close

EVERY = [kl, symmetric_kl, js, bernoulli_kl, symmetric_bernoulli_kl, squared_error]
SYMMETRIC = [symmetric_kl, js, symmetric_bernoulli_kl, squared_error]


def logits(*shape: int) -> torch.Tensor:
    return 3 * torch.randn(shape, dtype=torch.float64)


def test_kl_is_torchs():
    p, q = logits(5, 4), logits(5, 4)
    forwards = kl_divergence(Categorical(logits=p), Categorical(logits=q))
    backwards = kl_divergence(Categorical(logits=q), Categorical(logits=p))
    assert_close(kl(p, q), forwards)
    assert_close(symmetric_kl(p, q), forwards + backwards)


def test_bernoulli_kl_is_torchs_summed_over_the_labels():
    p, q = logits(5, 4), logits(5, 4)
    forwards = kl_divergence(Bernoulli(logits=p), Bernoulli(logits=q)).sum(-1)
    backwards = kl_divergence(Bernoulli(logits=q), Bernoulli(logits=p)).sum(-1)
    assert_close(bernoulli_kl(p, q), forwards)
    assert_close(symmetric_bernoulli_kl(p, q), forwards + backwards)


def test_js_is_scipys_and_at_most_log_2():
    p, q = logits(5, 4), logits(5, 4)
    assert_close(js(p, q), torch.tensor(jensenshannon(p.softmax(1), q.softmax(1), axis=1) ** 2))
    far = torch.tensor([[50.0, 0.0]], dtype=torch.float64)
    assert_close(js(far, -far).item(), math.log(2), tolerance=1e-9)


def test_the_squared_error_is_summed_over_the_outputs():
    assert squared_error(torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.zeros(2, 2)).tolist() == [5.0, 0.0]


@pytest.mark.parametrize("divergence", SYMMETRIC)
def test_a_symmetric_divergence_doesnt_change_when_its_sides_do(divergence):
    p, q = logits(5, 4), logits(5, 4)
    assert_close(divergence(p, q), divergence(q, p))


@pytest.mark.parametrize("divergence", [kl, bernoulli_kl])
def test_the_others_do(divergence):
    p, q = logits(5, 4), logits(5, 4)
    assert (divergence(p, q) - divergence(q, p)).abs().min() > 1e-3


@pytest.mark.parametrize("divergence", EVERY)
def test_a_divergence_is_0_at_equality_and_positive_elsewhere(divergence):
    p, q = logits(5, 4), logits(5, 4)
    assert_close(divergence(p, p), torch.zeros(5, dtype=torch.float64))
    assert (divergence(p, q) > 0).all()


@pytest.mark.parametrize("divergence", EVERY)
def test_a_divergence_reduces_the_last_dimension_only(divergence):
    p, q = logits(2, 3, 4), logits(2, 3, 4)
    assert divergence(p, q).shape == (2, 3)
    assert_close(divergence(p, q)[1, 2], divergence(p[1, 2], q[1, 2]))


@pytest.mark.parametrize("divergence", EVERY)
def test_gradients_flow_through_both_sides(divergence):
    p, q = logits(3, 4).requires_grad_(), logits(3, 4).requires_grad_()
    assert torch.autograd.gradcheck(divergence, (p, q))
    divergence(p, q).sum().backward()
    assert p.grad.abs().min() > 0
    assert q.grad.abs().min() > 0


@pytest.mark.parametrize("divergence", EVERY)
def test_half_precision_is_widened(divergence):
    p, q = logits(3, 4).bfloat16(), logits(3, 4).bfloat16()
    assert divergence(p, q).dtype == torch.float32
    assert_close(divergence(p, q), divergence(p.float(), q.float()))


@pytest.mark.parametrize("divergence", EVERY)
def test_confident_logits_stay_finite(divergence):
    p = torch.tensor([[500.0, -500.0]], requires_grad=True)
    q = torch.tensor([[-500.0, 500.0]], requires_grad=True)
    values = divergence(p, q)
    values.sum().backward()
    assert values.isfinite().all()
    assert p.grad.isfinite().all()
    assert q.grad.isfinite().all()


@pytest.mark.parametrize("divergence", [kl, symmetric_kl, js])
def test_a_softmax_over_a_single_logit_is_refused(divergence):
    """9310gaurav/virtual-adversarial-training#2: it is 0 whatever the logit is."""
    with pytest.raises(
        InputError, match="KL over a single logit is always 0: use squared_error for regression"
    ):
        divergence(logits(5, 1), logits(5, 1))


def test_a_shift_common_to_all_labels_is_seen_by_bernoulli_and_not_by_softmax():
    """bethgelab/foolbox#643."""
    p = logits(5, 4)
    assert_close(symmetric_kl(p, p + 1), torch.zeros(5, dtype=torch.float64))
    assert (symmetric_bernoulli_kl(p, p + 1) > 1e-3).all()


def test_a_span_is_a_start_and_an_end():
    p, q = logits(5, 2, 7), logits(5, 2, 7)
    assert_close(spans(symmetric_kl)(p, q), symmetric_kl(p[:, 0], q[:, 0]) + symmetric_kl(p[:, 1], q[:, 1]))


@pytest.mark.parametrize(
    ("problem", "classes", "divergence"),
    [
        ("single_label_classification", 3, symmetric_kl),
        ("multi_label_classification", 3, symmetric_bernoulli_kl),
        ("multi_label_classification", 1, symmetric_bernoulli_kl),
        ("regression", 1, squared_error),
        ("regression", 3, squared_error),
    ],
)
def test_each_task_has_its_divergence(problem, classes, divergence):
    assert divergences.by_task(problem, classes=classes) is divergence


@pytest.mark.parametrize(
    ("problem", "classes", "message"),
    [
        ("single_label_classification", 1, "a model with one output is a regression"),
        ("ranking", 3, "problem type 'ranking' is unknown: one of single_label_classification, multi_label"),
    ],
)
def test_a_task_without_one_is_refused(problem, classes, message):
    with pytest.raises(InputError, match=message):
        by_task(problem, classes=classes)


# -- one value per example -----------------------------------------------------------------------------------


def test_the_mean_over_tokens_ignores_those_without_a_label():
    """dropreg/R-Drop#24: one mean per valid item, whatever the length."""
    labels = torch.tensor([[1, -100, 2], [0, 1, 1], [-100, -100, -100]])
    values = torch.tensor([[1.0, 99.0, 3.0], [1.0, 2.0, 6.0], [7.0, 8.0, 9.0]])
    assert mean_over_items(values, labels != -100).tolist() == [2.0, 3.0, 0.0]
    assert mean_over_items(values, (labels != -100).long()).tolist() == [2.0, 3.0, 0.0]


def test_the_mean_over_tokens_is_blind_to_what_stands_on_padding():
    values = torch.tensor([[1.0, math.nan]], requires_grad=True)
    mean = mean_over_items(values, torch.tensor([[True, False]]))
    mean.sum().backward()
    assert mean.tolist() == [1.0]
    assert values.grad.tolist() == [[1.0, 0.0]]


def test_without_a_mask_all_items_count():
    assert mean_over_items(torch.tensor([[1.0, 3.0], [5.0, 5.0]])).tolist() == [2.0, 5.0]


def test_one_value_per_example_stays_as_it_is():
    assert mean_over_items(torch.tensor([1.0, 3.0])).tolist() == [1.0, 3.0]
    assert mean_over_items(torch.tensor([1.0, 3.0]), torch.tensor([True, False])).tolist() == [1.0, 0.0]
