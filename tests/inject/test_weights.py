"""Inside, a parameter reads as moved under all its names; it is never written."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sparring.inject import WeightShift
from tests import tiny


def bits(model: nn.Module) -> dict[str, tuple[int, torch.Tensor]]:
    """Each parameter's identity and value."""
    return {name: (id(p), p.detach().clone()) for name, p in model.named_parameters(remove_duplicate=False)}


def assert_untouched(model: nn.Module, before: dict, order: list[str]) -> None:
    after = bits(model)
    assert {name: identity for name, (identity, _) in after.items()} == {
        name: identity for name, (identity, _) in before.items()
    }
    assert all(torch.equal(after[name][1], value) for name, (_, value) in before.items())
    assert list(model.state_dict()) == order
    assert not any("weight" in vars(module) for module in model.modules())


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("name", ["transformer.wte.weight", "transformer.h.0.attn.c_attn.weight"])
def test_the_weight_comes_back_bit_for_bit(name, scale):
    """In-place `add_` and `sub_` would not bring it back."""
    model = tiny.gpt2().float()
    before, order = bits(model), list(model.state_dict())
    shift = scale * torch.randn_like(model.get_parameter(name))
    with WeightShift(model, {name: shift}):
        module, _, attribute = name.rpartition(".")
        assert torch.equal(getattr(model.get_submodule(module), attribute), before[name][1] + shift)
    assert_untouched(model, before, order)


def test_it_comes_back_after_an_exception_too():
    model, name = tiny.gpt2(), "transformer.wte.weight"
    before, order = bits(model), list(model.state_dict())
    with pytest.raises(KeyError), WeightShift(model, {name: torch.ones_like(model.get_parameter(name))}):
        raise KeyError
    assert_untouched(model, before, order)


def test_the_parameter_itself_is_not_written_while_it_reads_as_moved():
    model, name = tiny.gpt2(), "transformer.wte.weight"
    before, order = bits(model), list(model.state_dict())
    version = model.get_parameter(name)._version
    with WeightShift(model, {name: torch.ones_like(model.get_parameter(name))}):
        inside = dict(model.named_parameters(remove_duplicate=False))[name]
        assert torch.equal(inside, before[name][1])
        assert list(model.state_dict()) == order
    assert inside._version == version


@pytest.mark.parametrize("name", ["transformer.wte.weight", "lm_head.weight"])
def test_a_tied_output_layer_moves_with_its_embedding(name):
    """Under one of its names alone, GPT-2's logits are off by 0.8."""
    model, batch = tiny.gpt2(), tiny.language_batch()
    shift = 0.1 * torch.randn_like(model.lm_head.weight)
    with WeightShift(model, {name: shift}):
        moved = model(**batch).logits
        assert model.lm_head.weight is model.transformer.wte.weight
    with torch.no_grad():
        model.lm_head.weight.add_(shift)
    assert torch.equal(moved, model(**batch).logits)


def test_entered_twice_it_acts_once():
    model = nn.Linear(3, 3)
    before, shift = model.weight.detach().clone(), torch.ones(3, 3)
    twice = WeightShift(model, {"weight": shift})
    with twice:
        with twice:
            assert torch.equal(model.weight, before + shift)
        assert torch.equal(model.weight, before + shift)
    assert torch.equal(model.weight, before)


def test_several_parameters_move_together():
    model = nn.Linear(3, 3)
    x, ones = torch.randn(2, 3), torch.ones(3)
    wanted = nn.functional.linear(x, model.weight + 1, model.bias + 1)
    with WeightShift(model, {"weight": torch.ones(3, 3), "bias": ones}):
        assert torch.equal(model(x), wanted)


def test_the_gradient_reaches_the_parameter_and_the_shift():
    model = tiny.gpt2()
    batch, weight = tiny.language_batch(), model.transformer.wte.weight
    shift = (0.1 * torch.randn_like(weight)).requires_grad_()
    with WeightShift(model, {"transformer.wte.weight": shift}):
        model(**batch).loss.backward()
    moved = tiny.gpt2()
    with torch.no_grad():
        moved.transformer.wte.weight.add_(shift)
    moved(**batch).loss.backward()
    assert torch.equal(weight.grad, moved.transformer.wte.weight.grad)
    assert torch.equal(shift.grad, weight.grad)


def test_a_half_precision_weight_keeps_its_dtype():
    model = nn.Linear(3, 3).bfloat16()
    before, shift = model.weight.detach().float(), torch.full((3, 3), 0.01)
    with WeightShift(model, {"weight": shift}):
        assert model.weight.dtype == torch.bfloat16
        assert torch.equal(model.weight, (before + shift).bfloat16())
