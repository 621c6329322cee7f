"""README.md's Python blocks run, on the real embedded model; its commands are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import torch

from sparring.cli import COMMANDS
from sparring.methods import METHODS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
COMMAND_LINES = re.findall(r"^\$ sparring (.*?)(?:#.*)?$", README, re.MULTILINE)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning")
def test_the_python_blocks_run_and_train_the_embedded_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme", "output_dir": str(tmp_path)}
    weights = []
    for number, block in enumerate(BLOCKS, start=1):
        exec(compile(block, f"README.md, block {number}", "exec"), names)
        weights.append(names["model"].classifier.weight.detach().clone())
    assert len(weights) == 2
    assert not torch.equal(*weights)
    assert names["trainer"].state.global_step == 1


def test_the_commands_and_their_flags_are_there(capsys):
    from sparring.cli import main

    assert COMMAND_LINES
    for line in COMMAND_LINES:
        name, *rest = shlex.split(line)
        assert name in COMMANDS
        flags = [token for token in rest if token.startswith("--")]
        if not flags:
            continue
        method = ["--method", rest[rest.index("--method") + 1]] if "--method" in rest else []
        assert main([name, *method, "--help"]) == 0
        page = capsys.readouterr().out
        for flag in set(flags) - {"--method", "--config"}:
            assert re.search(rf"{re.escape(flag)}\b", page), f"{flag} of `sparring {line}` is no flag"


def test_the_table_lists_every_method_with_what_it_costs():
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*?) \|", README, flags=re.MULTILINE))
    for_k = {"K full": "3 full", "K ascent + 1 full": "1 full + 3 ascent"}
    assert set(rows) == set(METHODS)
    for name, kind in METHODS.items():
        assert str(kind().passes) == for_k.get(rows[name], rows[name])
