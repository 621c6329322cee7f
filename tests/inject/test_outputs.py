"""Inside, a module's output is moved; outside, and after an exception, the module is as it was."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from sparring import InputError
from sparring.inject import OutputShift
from sparring.inject.outputs import first


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, str]:
        return 2 * x, "kept"


def test_inside_the_output_is_moved_and_outside_it_isnt():
    module, x, delta = nn.Linear(3, 3), torch.randn(2, 3), torch.randn(2, 3)
    clean = module(x)
    with OutputShift(module, delta):
        assert torch.equal(module(x), clean + delta)
    assert torch.equal(module(x), clean)
    assert not module._forward_hooks


def test_of_a_tuple_the_first_element_is_moved():
    x, delta = torch.randn(2, 3), torch.randn(2, 3)
    module = Pair()
    with OutputShift(module, delta):
        moved, rest = module(x)
    assert torch.equal(moved, 2 * x + delta)
    assert rest == "kept"


def test_an_exception_takes_the_perturbation_away():
    module, x = nn.Linear(3, 3), torch.randn(2, 3)
    clean = module(x)
    with pytest.raises(KeyError), OutputShift(module, torch.ones(2, 3)):
        raise KeyError
    assert torch.equal(module(x), clean)
    assert not module._forward_hooks


def test_entered_twice_it_acts_once():
    """huggingface/trl#1766: noise applied twice."""
    module, x, delta = nn.Linear(3, 3), torch.randn(2, 3), torch.randn(2, 3)
    shift = OutputShift(module, delta)
    with shift:
        with shift:
            assert len(module._forward_hooks) == 1
        assert torch.equal(module(x), nn.functional.linear(x, module.weight, module.bias) + delta)
    assert not module._forward_hooks


@pytest.mark.parametrize("call", [0, 1])
def test_only_the_call_meant_is_moved(call):
    module, x, delta = nn.Linear(3, 3), torch.randn(2, 3), torch.randn(2, 3)
    clean = module(x)
    with OutputShift(module, delta, call=call):
        outputs = [module(x) for _ in range(3)]
    assert [torch.equal(output, clean) for output in outputs] == [i != call for i in range(3)]
    assert torch.equal(outputs[call], clean + delta)


def test_at_a_number_of_calls_it_is_in_force_as_it_was_then():
    module, x, delta = nn.Linear(3, 3), torch.randn(2, 3), torch.randn(2, 3)
    clean = module(x)
    shift = OutputShift(module, delta, call=1)
    with shift:
        outputs = [module(x) for _ in range(3)]
        with shift.at(1):
            assert torch.equal(module(x), outputs[1])
        with shift.at(0):
            assert torch.equal(module(x), clean)
        assert torch.equal(module(x), clean)  # the fourth call, which isn't the second
    with shift.at(0):
        assert torch.equal(module(x), clean)
        assert torch.equal(module(x), outputs[1])
    assert not module._forward_hooks


def test_the_sum_is_taken_in_the_wider_dtype_and_rounded_once():
    """zhuchen03/FreeLB#19: in half precision a small step would be lost before it is added."""
    module = nn.Linear(3, 3).bfloat16()
    x, delta = torch.randn(2, 3).bfloat16(), torch.full((2, 3), 0.01)
    clean = module(x)
    with OutputShift(module, delta):
        moved = module(x)
    assert moved.dtype == torch.bfloat16
    assert torch.equal(moved, (clean.float() + delta).bfloat16())


def test_the_gradient_reaches_the_perturbation_and_the_module():
    module, x = nn.Linear(3, 3), torch.randn(2, 3)
    delta = torch.zeros(2, 3, requires_grad=True)
    with OutputShift(module, delta):
        module(x).square().sum().backward()
    output = module(x).detach()
    assert torch.allclose(delta.grad, 2 * output)
    assert torch.allclose(module.weight.grad, (2 * output).T @ x)


@pytest.mark.parametrize("output", [{"x": 1}, (), None, ("text",)])
def test_an_output_without_a_tensor_first_is_refused(output):
    with pytest.raises(InputError, match="not a tensor or a tuple with one first"):
        first(output)
