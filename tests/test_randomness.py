"""Random states are captured and restored on every device a model is on; a stream counts as one pass."""

from __future__ import annotations

from random import Random

import pytest
import torch
from torch import nn

from sparring.randomness import Stream, capture, devices_of, restore, seeded, untouched
from tests import tiny

CPU = [torch.device("cpu")]


def test_the_devices_of_a_model_are_the_cpu_and_those_of_its_parameters():
    assert devices_of(tiny.bag()) == CPU
    assert devices_of(nn.Linear(2, 2, device="meta")) == CPU  # where nothing is drawn


def test_a_captured_state_gives_the_same_numbers_again():
    state = capture(CPU)
    first = torch.rand(3)
    restore(state)
    assert torch.equal(torch.rand(3), first)


def test_a_seeded_state_is_that_of_manual_seed_and_sets_nothing():
    before = torch.get_rng_state()
    state = seeded(CPU, 5)
    assert torch.equal(torch.get_rng_state(), before)
    restore(state)
    numbers = torch.randn(3)
    torch.manual_seed(5)
    assert torch.equal(torch.randn(3), numbers)


def draw_and_fail():
    torch.rand(3)
    raise KeyError


def test_untouched_hides_what_is_drawn_inside_also_after_an_exception():
    before = torch.get_rng_state()
    with untouched(CPU):
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(KeyError), untouched(CPU):
        draw_and_fail()
    assert torch.equal(torch.get_rng_state(), before)


def draws(stream: Stream, passes: int) -> list[float]:
    numbers = []
    for _ in range(passes):
        with stream.one_pass():
            numbers.append(torch.rand(()).item())
        torch.rand(5)  # whatever happens between passes
    stream.close()
    return numbers


@pytest.mark.parametrize("same", [True, False])
def test_however_many_passes_the_global_stream_is_where_one_leaves_it(same):
    torch.manual_seed(1)
    first, then = torch.rand(()).item(), torch.rand(()).item()
    torch.manual_seed(1)
    numbers = draws(Stream(CPU, Random(0), same=same), 3)
    assert numbers[0] == first
    assert torch.rand(()).item() == then
    assert len(set(numbers)) == (1 if same else 3)


def test_without_a_pass_the_global_stream_stays():
    before = torch.get_rng_state()
    Stream(CPU, Random(0), same=True).close()
    assert torch.equal(torch.get_rng_state(), before)
