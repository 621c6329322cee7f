"""What `sparring evaluate` found, as files and as tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparring.cli import console, record
from sparring.cli.folder import RunFolder, write_json
from sparring.data import Examples
from sparring.evaluation import Evaluation, Leaks
from sparring.method import Passes

RESULTS = "evaluation.json"
"""Not the name of a run's results, so that neither takes the other's folder for its own."""


@dataclass(frozen=True)
class Subject:
    """A model to evaluate.

    Attributes:
        name: to tell it from others.
        path: its folder, or a hub name.
        known: the results of its training, where `sparring train` made it.
    """

    name: str
    path: str
    known: dict[str, Any]

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of its training."""
        found: dict[str, Any] = self.known.get("arguments", {})
        return found

    def hashes(self) -> list[str]:
        """Those of the texts that it was trained on."""
        file = RunFolder(self.path).hashes
        return file.read_text(encoding="utf-8").split() if self.known and file.is_file() else []

    def cost(self) -> list[str]:
        """The time and the passes of its training, as text."""
        training = self.known.get("training")
        if training is None:
            return ["", ""]
        return [console.duration(training["seconds"]), str(Passes(**training["passes"]))]


@dataclass(frozen=True)
class Found:
    """What was found of one model."""

    subject: Subject
    evaluation: Evaluation
    leaks: Leaks


def write(output: Path, found: list[Found], about: dict[str, Any], examples: Examples) -> None:
    """Write each example's answers, the plot, and the results."""
    from sparring.report.plots import robustness_plot

    output.mkdir(parents=True, exist_ok=True)
    for one in found:
        one.evaluation.write_rows(output / f"{one.subject.name.replace('/', '-')}.jsonl")
    robustness_plot({one.subject.name: one.evaluation for one in found}, output / "robustness.png")
    models = {
        one.subject.name: {
            "path": one.subject.path,
            "evaluation": one.evaluation.to_dict(),
            "texts_trained_on": one.leaks.count,
            "method": one.subject.known.get("method"),
            "training": one.subject.known.get("training"),
        }
        for one in found
    }
    data = {"source": examples.source, "examples": len(examples), "sha256": examples.data_hash()}
    write_json(output / RESULTS, {"models": models, "data": data, **about, **record.provenance()})


def show(output: Path, found: list[Found]) -> None:
    """Print the tables, and where everything is."""
    print()
    columns = ["", "accuracy", "macro F1", "calibration error", "training time", "passes"]
    console.table(
        columns, [[one.subject.name, *_clean(one.evaluation), *one.subject.cost()] for one in found]
    )
    print()
    first = found[0].evaluation
    radii = [point.radius for point in first.under_attack]
    rows = []
    for one in found:
        points = one.evaluation.under_attack
        rows.append([one.subject.name, *(f"{point.accuracy:.3f}" for point in points)])
        rows.append(["  random noise", *(f"{point.noise_accuracy:.3f}" for point in points)])
    rows.append(["chance", *(f"{first.majority_share:.3f}" for _ in radii)])
    console.table(["under attack at", *(f"{radius:g}" for radius in radii)], rows)
    print()
    units = ", ".join(f"{one.evaluation.unit:.4g} for {one.subject.name}" for one in found)
    console.facts(
        [
            ("Attack", first.attack),
            ("Unit", units),
            ("Saved", f"{output}: {RESULTS}, robustness.png and .svg, each example's answers in .jsonl"),
        ]
    )


def _clean(evaluation: Evaluation) -> list[str]:
    return [f"{x:.3f}" for x in (evaluation.accuracy, evaluation.macro_f1, evaluation.calibration_error)]
