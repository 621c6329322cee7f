"""The folder of a run: who may write into it, what lies where, and whether a run can be gone on with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from sparring.cli.flags import flat
from sparring.cli.parsing import read_yaml
from sparring.errors import InputError

IMMATERIAL = {"output", "resume", "overwrite", "save_steps"}
"""Flags that change nothing about the result, so that a resumed run may have others."""


class RunFolder:
    """`config.yaml`, `train_hashes.txt`, `checkpoints/` and, once the run has ended, `results.json`, the model and `method.pt`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.hashes = self.path / "train_hashes.txt"
        self.checkpoints = self.path / "checkpoints"
        self.method = self.path / "method.pt"
        self.results = self.path / "results.json"

    def check_free(self, *, overwrite: bool) -> None:
        """Refuse a folder that holds anything, but for another run that may be replaced.

        Raises:
            InputError: saying what is there, and what to do.
        """
        if self.path.is_file():
            raise InputError(f"{self.path} is a file: give a folder as --output")
        if not self.path.is_dir() or not any(self.path.iterdir()):
            return
        if not self.config.is_file():
            raise InputError(f"{self.path} is not empty, and holds no run: choose another --output")
        if not overwrite:
            raise InputError(
                f"{self.path} holds another run: choose another --output, go on with that run by --resume, or "
                f"replace it by --overwrite"
            )

    def check_same(self, config: dict[str, Any]) -> None:
        """Refuse to go on with a run whose configuration differs in what matters.

        Raises:
            InputError: naming what differs.
        """
        if not self.config.is_file():
            raise InputError(f"{self.path} holds no run to resume: leave out --resume to start one")
        before, now = flat(read_yaml(self.config)), flat(config)
        for key in sorted({*before, *now} - IMMATERIAL):
            if before.get(key) != now.get(key):
                raise InputError(
                    f"cannot resume {self.path}: {key} was {_shown(before.get(key))} and is {_shown(now.get(key))} now; "
                    f"give it as it was, or choose another --output"
                )

    def check_texts(self, hashes: list[str]) -> None:
        """Refuse to go on with a run whose training texts have changed."""
        if self.hashes.read_text(encoding="utf-8").split() != hashes:
            raise InputError(f"cannot resume {self.path}: the training data have changed; choose another --output")

    def begin(self, config: dict[str, Any], hashes: list[str]) -> None:
        """Clear away a run that is replaced, and write down what this one is."""
        import yaml

        shutil.rmtree(self.checkpoints, ignore_errors=True)
        self.results.unlink(missing_ok=True)
        self.path.mkdir(parents=True, exist_ok=True)
        self.hashes.write_text("".join(f"{line}\n" for line in hashes), encoding="utf-8")
        self.config.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8")

    def end(self, results: dict[str, Any]) -> None:
        """Write the results; a run is finished when they are there."""
        write_json(self.results, results)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write so that the file is whole or not there."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=True) + "\n", encoding="utf-8")
    new.replace(path)


def _shown(value: Any) -> str:
    return "not given" if value is None else str(value)
