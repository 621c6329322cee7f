"""The plot shows each model's numbers, and chance level, in files that any program opens."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from sparring import InputError
from sparring.evaluation import AtRadius, Evaluation
from sparring.report import robustness_plot

RADII = (0.0, 0.1, 0.2)


def evaluation(accuracies: tuple[float, ...], **other) -> Evaluation:
    points = [
        AtRadius(radius, accuracy, noise_accuracy=0.79, loss=1.0, class_shares=(0.5, 0.5))
        for radius, accuracy in zip(RADII, accuracies, strict=True)
    ]
    return Evaluation(
        examples=100,
        accuracy=accuracies[0],
        macro_f1=0.8,
        calibration_error=0.1,
        label_shares=(0.48, 0.52),
        attack="PGD",
        unit=1.12,
        under_attack=tuple(points),
        repeatable=True,
        passes={"forward": 1, "ascent": 1},
        **other,
    )


PLAIN = evaluation((0.8, 0.5, 0.1))
FREELB = evaluation((0.82, 0.6, 0.3))


@pytest.fixture
def drawn(monkeypatch):
    """The axes of the last figure saved."""
    seen = []
    save = Figure.savefig

    def keep(figure, *args, **kwargs):
        seen.append(figure)
        save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", keep)
    return lambda: seen[-1].axes[0]


def lines(axes) -> dict[str, list[tuple[float, float]]]:
    return {
        line.get_label(): [(float(x), float(y)) for x, y in line.get_xydata()]
        for line in axes.get_lines()
        if not line.get_label().startswith("_")
    }


def test_a_png_and_an_svg_are_written(tmp_path):
    png, svg = robustness_plot({"plain": PLAIN}, tmp_path / "plots" / "robustness.pdf")
    assert (png.name, svg.name) == ("robustness.png", "robustness.svg")
    assert png.read_bytes().startswith(b"\x89PNG\r\n")
    assert svg.read_text(encoding="utf-8").startswith("<?xml")
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == [
        "robustness.png",
        "robustness.svg",
    ]


def test_each_model_is_a_line_through_its_accuracies(tmp_path, drawn):
    robustness_plot({"plain": PLAIN, "freelb": FREELB}, tmp_path / "plot")
    found = lines(drawn())
    assert found["plain, clean 80.0%"] == [(0.0, 0.8), (0.1, 0.5), (0.2, 0.1)]
    assert found["freelb, clean 82.0%"] == [(0.0, 0.82), (0.1, 0.6), (0.2, 0.3)]
    assert {y for _, y in found["chance level, 52.0%"]} == {0.52}
    assert len(found) == 3
    styles = {
        (line.get_color(), line.get_marker()) for line in drawn().get_lines() if line.get_marker() != "None"
    }
    assert len(styles) == 2


def test_chance_level_is_dashed_once_for_models_on_the_same_data(tmp_path, drawn):
    other = replace(FREELB, label_shares=(0.7, 0.3))
    robustness_plot({"plain": PLAIN, "freelb": FREELB, "other": other}, tmp_path / "plot")
    dashed = [line.get_label() for line in drawn().get_lines() if line.get_linestyle() == "--"]
    assert dashed == ["chance level, 52.0%", "chance level, 70.0%"]


def test_a_single_model_is_shown_with_noise(tmp_path, drawn):
    robustness_plot({"plain": PLAIN}, tmp_path / "plot")
    assert {y for _, y in lines(drawn())["under random noise of that size"]} == {0.79}


def test_the_words_are_words_in_the_svg(tmp_path):
    _, svg = robustness_plot({"plain": PLAIN, "freelb": FREELB}, tmp_path / "plot")
    text = svg.read_text(encoding="utf-8")
    for words in (
        "radius, in mean word-embedding norms (1 = 1.12)",
        "accuracy under attack",
        "plain, clean 80.0%",
    ):
        assert f">{words}<" in text


def test_models_with_their_own_units_are_told_apart(tmp_path, drawn):
    robustness_plot({"plain": PLAIN, "other": replace(FREELB, unit=2.4)}, tmp_path / "plot")
    assert drawn().get_xlabel() == "radius, in mean word-embedding norms (each model's own)"


def test_the_same_numbers_give_the_same_svg(tmp_path):
    one, other = (robustness_plot({"plain": PLAIN}, tmp_path / name)[1] for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_more_models_than_colours_can_be_drawn(tmp_path, drawn):
    robustness_plot({str(i): PLAIN for i in range(9)}, tmp_path / "plot")
    assert len(lines(drawn())) == 9 + 1


def test_nothing_to_plot_is_an_error(tmp_path):
    with pytest.raises(InputError, match="nothing to plot"):
        robustness_plot({}, tmp_path / "plot")
