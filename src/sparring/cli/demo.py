"""`sparring demo`: the main job from end to end, on the embedded model and data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparring.cli import main

LEARNING_RATE = 1e-4  # twice the usual: the demo takes few steps


@dataclass(frozen=True, kw_only=True)
class Options:
    """Fine-tune MiniLM on film reviews with plain training and with FreeLB, and compare both.

    Args:
        train_size: how many reviews to train on.
        epochs: passes over them.
        limit: how many reviews to measure on.
        output: the folder for both runs and their comparison, which replace those of an earlier demo.
    """

    train_size: int = 1000
    epochs: int = 2
    limit: int = 200
    output: str = "runs/demo"


def run(options: Options) -> int:
    """Run the commands, and print each before."""
    size = f"--train-size {options.train_size} --held-out-size {options.limit}".split()
    size += f"--epochs {options.epochs} --learning-rate {LEARNING_RATE}".split()
    folders = {name: str(Path(options.output) / name) for name in ("plain", "freelb")}
    commands = [
        ["train", "--method", name, *size, "--output", folder, "--overwrite"]
        for name, folder in folders.items()
    ]
    comparison = ["--limit", str(options.limit), "--output", str(Path(options.output) / "comparison")]
    commands.append(["evaluate", "--model", *folders.values(), *comparison, "--overwrite"])
    for command in commands:
        print(f"$ sparring {' '.join(command)}\n")
        status = main(command)
        if status != 0:
            return status
        print()
    return 0
