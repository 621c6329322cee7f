"""What a method declares in `method.properties`, for a given start."""

from __future__ import annotations

from sparring.testing.batches import View, padded, rows_of, whole
from sparring.testing.setting import (
    Gradients,
    NotCheckedError,
    Run,
    Setting,
    difference,
    gradients,
    plain,
    play,
    require,
)


def random_starts_are_declared(setting: Setting) -> None:
    """Without one, nothing depends on the method's seed."""
    model = setting.subject(dropout=False)
    method, other = setting.method(model), setting.method(model)
    if method.properties.random_start:
        raise NotCheckedError("the method declares a random start")
    other.seed += 1
    one, two = (play(each, model, setting.batch).grads for each in (method, other))
    wrong = difference(one, two, within=0)
    require(not wrong, f"no random start is declared, but with another seed the gradient differs at {wrong}")


def sizes_zero_give_the_plain_gradient(setting: Setting) -> None:
    """With radius, start and steps of 0, plain training is what is left, its dropout mask included."""
    if not setting.factory().properties.plain_at_zero:
        raise NotCheckedError("the method doesn't declare plain_at_zero")
    if setting.at_zero is None:
        raise AssertionError(
            "plain_at_zero is declared, so pass at_zero=, which makes the method with sizes 0"
        )
    same_dropout = setting.factory().dropout == "same"
    for dropout in (False, True) if same_dropout else (False,):
        model = setting.subject(dropout=dropout)
        theirs = plain(model, setting.batch, setting.forward)
        ours = play(setting.warmed_up(setting.at_zero(), model), model, setting.batch)
        wrong = difference(ours.grads, theirs.grads, setting.tolerance)
        when = "with one dropout mask for all passes" if dropout else "without dropout"
        require(not wrong, f"{when} and with sizes 0 the gradient is not plain training's at {wrong}")


def an_example_has_the_same_perturbation_in_any_batch(setting: Setting) -> None:
    """Alone, and among the others in another order."""
    _require_per_example(setting)
    rows = whole(setting.batch).rows
    others = {"first, alone": rows[:1], "last, alone": rows[-1:], "in another order": rows[::-1]}
    views = {where: rows_of(setting.batch, chosen) for where, chosen in others.items()}
    _require_same_perturbations(setting, views)


def an_example_has_the_same_perturbation_under_padding_on_the_right(setting: Setting) -> None:
    """Longer padding, as a longer neighbour brings it."""
    _require_same_under_padding(setting, padded(setting.batch, setting.pad_id, right=3), "on the right")


def an_example_has_the_same_perturbation_under_padding_on_the_left(setting: Setting) -> None:
    """The same on the left, where causal models are padded."""
    _require_same_under_padding(setting, padded(setting.batch, setting.pad_id, left=3), "on the left")


def micro_batches_give_the_gradient_of_the_batch(setting: Setting) -> None:
    """An optimizer step over 1, 2 or 3 micro-batches of unequal sizes is the step over all their examples."""
    _require_per_example(setting)
    rows = whole(setting.batch).rows
    expected = _accumulated(setting, [rows])
    for parts in ([rows[:1], rows[1:]], [rows[:1], rows[1:3], rows[3:]]):
        wrong = difference(_accumulated(setting, parts), expected, setting.tolerance)
        require(not wrong, f"{len(parts)} micro-batches give another gradient than one at {wrong}")


def _require_per_example(setting: Setting) -> None:
    if not setting.factory().properties.per_example:
        raise NotCheckedError("the method doesn't declare per_example")


def _given(setting: Setting, view: View) -> Run:
    """A run without dropout, from the given start."""
    model = setting.subject(dropout=False)
    method = setting.method(model)
    with setting.noise(view):
        return play(method, model, view.batch)


def _accumulated(setting: Setting, parts: list[list[int]]) -> Gradients:
    """The gradient of a step over micro-batches of these examples."""
    model = setting.subject(dropout=False)
    method = setting.method(model)
    model.zero_grad()
    for part in parts:
        view = rows_of(setting.batch, part)
        weight = len(part) / len(whole(setting.batch).rows)
        loss_weight = setting.items(view.batch) / setting.items(setting.batch)
        with setting.noise(view):
            play(method, model, view.batch, weight=weight, loss_weight=loss_weight, keep=True)
    return gradients(model)


def _require_same_perturbations(setting: Setting, views: dict[str, View]) -> None:
    there = _given(setting, whole(setting.batch)).passes
    for where, view in views.items():
        here = _given(setting, view).passes
        require(len(there) == len(here), f"{where} there are {len(here)} passes, not {len(there)}")
        for number, (theirs, ours) in enumerate(zip(there, here, strict=True), start=1):
            if theirs.delta is None or ours.delta is None:
                continue
            expected, found = theirs.delta[view.rows], ours.delta
            if found.ndim > 2 and found.shape[1] == len(view.tokens):
                found = found[:, view.real]
            apart, size = float((found - expected).abs().max()), float(expected.abs().max())
            same = apart <= setting.tolerance * size
            require(same, f"{where} the perturbation of pass {number} differs by {apart:.2g} of {size:.2g}")


def _require_same_under_padding(setting: Setting, view: View, side: str) -> None:
    _require_per_example(setting)
    model = setting.subject(dropout=False)
    shorter, longer = (plain(model, batch, setting.forward).grads for batch in (setting.batch, view.batch))
    if difference(longer, shorter, setting.tolerance):
        raise NotCheckedError(f"the model itself computes something else under longer padding {side}")
    _require_same_perturbations(setting, {f"under longer padding {side}": view})
