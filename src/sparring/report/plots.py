"""Plots, the only place that imports matplotlib. Drawn without a display, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sparring.errors import InputError
from sparring.evaluation.result import Evaluation

# Okabe and Ito's colours, which colour-blind people tell apart; on a grey print the markers do.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def robustness_plot(evaluations: Mapping[str, Evaluation], path: Path) -> tuple[Path, Path]:
    """Draw accuracy under attack over the radius, a line per model that begins at its clean accuracy.

    Chance level, the share of the most frequent class, is dashed. For a single model, accuracy under random
    noise of the same size is dotted.

    Args:
        evaluations: by the name that the legend gives the model; all on the same data.
        path: of the picture; `.png` and `.svg` are written, whatever suffix it has.

    Returns:
        The two files.
    """
    if not evaluations:
        raise InputError("there is nothing to plot: pass one evaluation or more")
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    with rc_context({"font.size": 11, "svg.fonttype": "none", "svg.hashsalt": "sparring"}):
        figure = Figure(figsize=(7, 4.8), layout="constrained")
        axes = figure.add_subplot()
        for i, (name, evaluation) in enumerate(evaluations.items()):
            points = evaluation.under_attack
            radii = [point.radius for point in points]
            colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
            label = f"{name}, clean {evaluation.accuracy:.1%}"
            accuracies = [point.accuracy for point in points]
            axes.plot(radii, accuracies, color=colour, marker=marker, label=label, lw=2, clip_on=False)
            if len(evaluations) == 1:
                noise = [point.noise_accuracy for point in points]
                axes.plot(radii, noise, color=colour, ls=":", label="under random noise of that size")
        for share in sorted({evaluation.majority_share for evaluation in evaluations.values()}):
            axes.axhline(share, color="0.3", ls="--", lw=1.2, label=f"chance level, {share:.1%}")
        axes.set(xlabel=_radius_label(evaluations), ylabel="accuracy under attack", ylim=(0, 1))
        axes.margins(x=0.03)
        axes.axvline(0, color="0.6", lw=0.8, zorder=1)
        axes.annotate("clean", (0, 1), (4, -4), textcoords="offset points", ha="left", va="top", color="0.3")
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.grid(color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside upper left", ncols=2, frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        png, svg = path.with_suffix(".png"), path.with_suffix(".svg")
        figure.savefig(png, dpi=200)
        figure.savefig(svg, metadata={"Date": None})
    return png, svg


def _radius_label(evaluations: Mapping[str, Evaluation]) -> str:
    units = {f"{evaluation.unit:.3g}" for evaluation in evaluations.values()}
    unit = f"1 = {units.pop()}" if len(units) == 1 else "each model's own"
    return f"radius, in mean word-embedding norms ({unit})"
