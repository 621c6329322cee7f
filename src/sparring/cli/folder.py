"""The folder of a run: who may write into it, what lies where, and whether its run can be gone on with."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

from sparring.cli.flags import flat
from sparring.cli.parsing import read_yaml
from sparring.errors import InputError

DEFAULT = "runs/default"
"""Where a run goes, and comes from, that is given no folder."""

OURS = (
    *("config.yaml", "train_hashes.txt", "checkpoints", "evaluation", "method.pt", "results.json"),
    *("config.json", "model*.safetensors*", "*token*.json", "vocab.*", "merges.txt", "*.model"),
)
"""What a run, and `save_pretrained`, write: what `--overwrite` deletes. Other files in the folder stay."""

IMMATERIAL = {"output", "save_steps"}
"""Flags that change nothing about the result, so that a resumed run may have others."""


class RunFolder:
    """The files of a run. It has ended when `results.json`, the last of them, is there.

    Attributes:
        config: the configuration, as `--config` takes it.
        hashes: of the training texts, one a line.
        checkpoints: a folder of them.
        method: the method's state at the end; the model lies beside it.
        results: what was found.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.hashes = self.path / "train_hashes.txt"
        self.checkpoints = self.path / "checkpoints"
        self.method = self.path / "method.pt"
        self.results = self.path / "results.json"

    def known(self) -> dict[str, Any]:
        """The results; empty where the folder isn't one of `sparring train`, or its run hasn't ended.

        Raises:
            InputError: they are damaged.
        """
        if not (self.config.is_file() and self.results.is_file()):
            return {}
        try:
            found: dict[str, Any] = json.loads(self.results.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{self.results} is damaged ({error}): take it away, or train again") from None
        return found

    def check_free(self, *, overwrite: bool) -> None:
        """Refuse a folder that holds anything, but for another run that may be replaced.

        Raises:
            InputError: saying what is there, and what to do.
        """
        check_free(self.path, self.config, "run", overwrite=overwrite)

    def check_same(self, config: dict[str, Any]) -> None:
        """Refuse to go on with a run whose configuration differs in what matters.

        Raises:
            InputError: naming what differs.
        """
        if not self.config.is_file():
            raise InputError(f"{self.path} holds no run to resume: leave out --resume to start one")
        before, now = flat(read_yaml(self.config)), flat(config)
        keys = {*before, *now} - IMMATERIAL
        # The method's name comes first: another has other arguments too.
        for key in sorted(keys, key=lambda key: (key != "method.name", key)):
            if before.get(key) != now.get(key):
                was, is_now = _shown(before.get(key)), _shown(now.get(key))
                raise InputError(
                    f"cannot resume {self.path}: {key} was {was} and is {is_now} now; leave it as it was, or "
                    f"choose another --output"
                )

    def begin(self, config: dict[str, Any]) -> None:
        """Clear away a run that is replaced, and write down what this one is."""
        import yaml

        for path in [path for pattern in OURS for path in self.path.glob(pattern)]:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.config, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))

    def forget(self) -> None:
        """Take away what `begin` and `keep_texts` wrote, where the run never got as far as a checkpoint."""
        if self.checkpoints.is_dir() and any(self.checkpoints.iterdir()):
            return
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        for file in (self.config, self.hashes):
            file.unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()

    def keep_texts(self, hashes: list[str]) -> None:
        """Note which texts the run trains on.

        Raises:
            InputError: they are others than before it was stopped.
        """
        if not self.hashes.is_file():
            write_text(self.hashes, "".join(f"{line}\n" for line in hashes))
        elif self.hashes.read_text(encoding="utf-8").split() != hashes:
            raise InputError(
                f"cannot resume {self.path}: the training texts have changed; choose another --output"
            )


def check_free(folder: Path, mark: Path, what: str, *, overwrite: bool) -> None:
    """Refuse a folder that holds anything, but for what has this mark, and may be replaced.

    Raises:
        InputError: saying what is there, and what to do.
    """
    if folder.is_file():
        raise InputError(f"{folder} is a file: give a folder as --output")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not mark.is_file():
        raise InputError(f"{folder} is not empty, and holds no {what}: choose another --output")
    if not overwrite:
        resume = "go on with it by --resume, " if what == "run" else ""
        raise InputError(
            f"{folder} holds another {what}: choose another --output, {resume}or replace it by --overwrite"
        )


def check_there(path: str) -> None:
    """Refuse to look for the default run before there is one.

    Raises:
        InputError: saying how to make it.
    """
    if path == DEFAULT and not Path(path).is_dir():
        raise InputError(f"there is no run in {DEFAULT} yet: `sparring train` makes one, or give --model")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write numbers and text; the numbers that JSON doesn't know as text, `inf` and `nan`."""
    write_text(path, json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write so that the file is whole, or as it was."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _shown(value: Any) -> str:
    return "not given" if value is None else str(value)
