"""Each ball is its norm's: projection, steepest ascent and starts agree with brute force, row by row."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from sparring import L1, L2, InputError, Linf
from sparring.balls import Ball

KINDS = (L2, Linf, L1)
EXAMPLES, TOKENS, HIDDEN = 3, 4, 5
EVERY_BALL = [
    kind(radius, over=over)
    for kind, radius, over in product(KINDS, (0.0, 0.7, math.inf), ("example", "token"))
]


def norm(kind: type[Ball], row: Tensor) -> float:
    """The definition, for one row of numbers."""
    return row.abs().max() if kind is Linf else torch.linalg.vector_norm(row, 1 if kind is L1 else 2)


def rows(ball: Ball, x: Tensor) -> Tensor:
    """What one norm is taken over, one a row: examples, or tokens."""
    return x.flatten(1) if ball.over == "example" else x.reshape(-1, x.shape[-1])


@st.composite
def tensors(draw) -> Tensor:
    """`[examples, tokens, hidden]` of any scale, with zeros, ties, padding and perhaps an example of it."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    x = torch.randn(EXAMPLES, TOKENS, HIDDEN, generator=generator, dtype=torch.float64)
    x = draw(st.sampled_from([x, x.round(), x.sign(), x * (torch.rand(x.shape, generator=generator) < 0.3)]))
    x = x * 10.0 ** draw(st.integers(-3, 3))
    x[0, draw(st.integers(0, TOKENS)) :] = 0
    return x


balls = st.builds(
    lambda kind, radius, over: kind(radius, over=over),
    st.sampled_from(KINDS),
    st.one_of(st.just(0.0), st.floats(1e-3, 100.0)),
    st.sampled_from(["example", "token"]),
)


# -- norms ---------------------------------------------------------------------------------------------------


@given(tensors(), balls)
def test_the_norm_is_each_rows_own(x, ball):
    found = ball.norm(x)
    assert found.shape == ((EXAMPLES, 1, 1) if ball.over == "example" else (EXAMPLES, TOKENS, 1))
    wanted = torch.stack([norm(type(ball), row) for row in rows(ball, x)])
    torch.testing.assert_close(found.flatten(), wanted, rtol=1e-12, atol=0)


@given(tensors(), balls)
def test_a_unit_vector_has_norm_1_and_the_direction_and_zero_stays_zero(x, ball):
    units, sizes = ball.unit(x), ball.norm(x)
    torch.testing.assert_close(ball.norm(units), (sizes > 0).double(), rtol=1e-12, atol=0)
    torch.testing.assert_close(units * sizes, x, rtol=1e-12, atol=0)


# -- projection ----------------------------------------------------------------------------------------------


@given(tensors(), balls)
def test_a_projection_lies_inside_and_projecting_again_changes_nothing(x, ball):
    inside = ball.project(x)
    assert (ball.norm(inside) <= ball.radius * (1 + 1e-12)).all()
    torch.testing.assert_close(ball.project(inside), inside, rtol=1e-9, atol=1e-12 * ball.radius)


@given(tensors(), balls)
def test_what_is_inside_stays_bit_for_bit(x, ball):
    x = ball.unit(x) * ball.radius * 0.999
    assert torch.equal(ball.project(x), x)


@given(tensors(), balls, st.integers(0, 2**32))
def test_a_projection_is_the_nearest_point_of_the_ball(x, ball, seed):
    """A point p of a convex set is x's nearest exactly if no point q of the set has (x - p)(q - p) > 0."""
    assume(ball.radius > 0)
    nearest = rows(ball, ball.project(x))
    generator = torch.Generator().manual_seed(seed)
    for row, point in zip(rows(ball, x), nearest, strict=True):
        others = extremes(type(ball), len(row), generator) * ball.radius
        ahead = (others - point) @ (row - point)
        assert ahead.max() <= 1e-9 * max(1.0, row.norm().item() * ball.radius)


def extremes(kind: type[Ball], size: int, generator: torch.Generator) -> Tensor:
    """Points on the unit sphere, the corners among them: the worst rivals of a projection or a direction."""
    if kind is L1:
        return torch.cat([torch.eye(size), -torch.eye(size)]).double()
    points = torch.randn(200, size, generator=generator, dtype=torch.float64)
    if kind is L2:
        return points / points.norm(dim=1, keepdim=True)
    corners = list(product([-1.0, 1.0], repeat=size)) if size <= 6 else []
    return torch.cat([points.sign(), torch.tensor(corners, dtype=torch.float64).reshape(-1, size)])


@given(tensors(), st.sampled_from(KINDS), st.sampled_from(["example", "token"]))
def test_an_infinite_radius_changes_nothing(x, kind, over):
    assert torch.equal(kind(math.inf, over=over).project(x), x)


# -- ascent --------------------------------------------------------------------------------------------------


@given(tensors(), balls, st.integers(0, 2**32))
def test_the_steepest_direction_has_norm_1_and_none_rises_more(grad, ball, seed):
    steepest = rows(ball, ball.steepest(grad))
    generator = torch.Generator().manual_seed(seed)
    for row, direction in zip(rows(ball, grad), steepest, strict=True):
        if not row.any():
            assert not direction.any()
            continue
        rise = row @ direction
        assert (extremes(type(ball), len(row), generator) @ row).max() <= rise * (1 + 1e-9)
        assert norm(type(ball), direction) == pytest.approx(1, rel=1e-9)


@given(tensors(), tensors(), balls, st.floats(0, 3), st.sampled_from(["steepest", "scaled"]))
def test_an_ascent_step_is_brute_forces_row_by_row(delta, grad, ball, step_size, step):
    ball = type(ball)(ball.radius, over=ball.over, step=step)
    alone = type(ball)(ball.radius, step=step)
    found = rows(ball, ball.ascend(delta, grad, step_size))
    for row, start, slope in zip(found, rows(ball, delta), rows(ball, grad), strict=True):
        direction = slope / norm(type(ball), slope) if slope.any() else slope
        if step == "steepest":
            direction = alone.steepest(slope[None])[0]
        wanted = alone.project((start + step_size * direction)[None])[0]
        torch.testing.assert_close(row, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("ball", EVERY_BALL)
def test_a_zero_gradient_moves_nothing(ball):
    delta = ball.project(torch.randn(EXAMPLES, TOKENS, HIDDEN))
    assert torch.equal(ball.ascend(delta, torch.zeros_like(delta), 0.5), ball.project(delta))


@pytest.mark.parametrize("ball", EVERY_BALL)
def test_a_step_is_detached(ball):
    delta = torch.zeros(EXAMPLES, TOKENS, HIDDEN, requires_grad=True)
    assert not ball.ascend(delta, torch.ones_like(delta).detach(), 0.5).requires_grad


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("over", ["example", "token"])
@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e200, torch.float64), (1e-200, torch.float64), (1e30, torch.float32), (1e-30, torch.float32)],
)
@pytest.mark.parametrize("step", ["steepest", "scaled"])
def test_huge_and_tiny_gradients_step_like_usual_ones(kind, over, scale, dtype, step):
    ball = kind(0.7, over=over, step=step)
    grad = torch.randn(EXAMPLES, TOKENS, HIDDEN, dtype=dtype)
    delta = ball.project(torch.randn(EXAMPLES, TOKENS, HIDDEN, dtype=dtype))
    usual, extreme = ball.ascend(delta, grad, 0.5), ball.ascend(delta, grad * scale, 0.5)
    torch.testing.assert_close(extreme, usual, rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("over", ["example", "token"])
@pytest.mark.parametrize(("scale", "dtype"), [(1e200, torch.float64), (1e30, torch.float32)])
def test_a_huge_perturbation_is_projected_into_the_ball(kind, over, scale, dtype):
    ball = kind(0.7, over=over)
    sizes = ball.norm(ball.project(scale * torch.randn(EXAMPLES, TOKENS, HIDDEN, dtype=dtype)))
    assert (sizes <= 0.7 * (1 + 1e-6)).all()
    if kind is not L1:  # whose radius is nothing beside such sums
        torch.testing.assert_close(sizes, torch.full_like(sizes, 0.7))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [0.0, 0.7])
@pytest.mark.parametrize("size", [1e-309, 5e-324])
def test_a_perturbation_too_small_to_divide_by_stays_finite(kind, radius, size):
    delta = torch.full((EXAMPLES, TOKENS, HIDDEN), size, dtype=torch.float64)
    assert torch.equal(kind(radius).project(delta), delta if radius else torch.zeros_like(delta))


# -- starts --------------------------------------------------------------------------------------------------


def support(*lengths: int) -> Tensor:
    return (torch.arange(TOKENS) < torch.tensor(lengths)[:, None])[..., None].double().expand(-1, -1, HIDDEN)


@pytest.mark.parametrize("ball", EVERY_BALL)
def test_a_start_has_at_most_norm_1_and_none_on_padding(ball):
    where = support(4, 2, 0)
    start = ball.spread(where)
    assert (ball.norm(start) <= 1).all()
    assert (start[where == 0] == 0).all()
    assert (start[where == 1] != 0).all()


@pytest.mark.parametrize(
    ("ball", "divisors"),
    [
        (L2(), [(4 * HIDDEN) ** 0.5, (2 * HIDDEN) ** 0.5]),
        (L2(over="token"), [HIDDEN**0.5] * 2),
        (L1(), [4 * HIDDEN, 2 * HIDDEN]),
        (L1(over="token"), [HIDDEN] * 2),
        (Linf(), [1, 1]),
        (Linf(over="token"), [1, 1]),
    ],
)
def test_a_start_is_uniform_noise_over_the_norm_of_its_real_numbers(ball, divisors):
    """U(-1, 1) / sqrt(N) for L2, N = real tokens x hidden, padding not counted."""
    where = support(4, 2)
    noise = torch.rand(where.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wanted = (2 * noise - 1) * where / torch.tensor(divisors)[:, None, None]
    torch.testing.assert_close(ball.spread(where, torch.Generator().manual_seed(1)), wanted)


def test_a_start_comes_from_the_generator_alone():
    state = torch.get_rng_state()
    first, again = (L2().spread(support(4, 2), torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_start_covers_the_interval():
    start = Linf().spread(torch.ones(1, 1000, 10))
    assert -1 <= start.min() < -0.99
    assert 0.99 < start.max() <= 1
    assert start.mean().abs() < 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_norm_is_over_rows_with_support(kind):
    delta = torch.randn(3, TOKENS, HIDDEN, dtype=torch.float64) * support(4, 2, 0)
    by_example = [norm(kind, row) for row in delta[:2].flatten(1)]
    by_token = [norm(kind, row) for row in [*delta[0], *delta[1, :2]]]
    torch.testing.assert_close(kind().mean_norm(delta, support(4, 2, 0)), torch.stack(by_example).mean())
    over_tokens = kind(over="token").mean_norm(delta, support(4, 2, 0))
    torch.testing.assert_close(over_tokens, torch.stack(by_token).mean())


def test_the_mean_norm_of_nothing_is_0():
    assert L2().mean_norm(torch.zeros(2, TOKENS, HIDDEN), support(0, 0).float()) == 0


# -- arguments -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"radius": -1.0}, "radius is -1.0, but must be 0 or more"),
        ({"radius": math.nan}, "radius is nan, but must be 0 or more"),
        ({"over": "batch"}, "over is 'batch', but must be 'example' or 'token'"),
        ({"step": "sign"}, "step is 'sign', but must be 'steepest' or 'scaled'"),
    ],
)
def test_impossible_balls_are_refused(kind, arguments, message):
    with pytest.raises(InputError, match=f"^{kind.__name__}: {message}$"):
        kind(**arguments)
