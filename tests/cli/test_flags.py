"""The set of flags is a promise. Who changes it on purpose runs this file, and commits flags.txt."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from sparring import METHODS
from sparring.cli import COMMANDS

FILE = Path(__file__).with_name("flags.txt")
LINES = [
    *(command for command in COMMANDS if command != "train"),
    *(f"train --method {method}" for method in METHODS),
]


def flags(line):
    """A command's flags, as its help lists them."""
    command = [sys.executable, "-m", "sparring", *line.split(), "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  (--[\w.-]+)", text, flags=re.MULTILINE)


def frozen(listed):
    return "".join(f"{line}\n" + "".join(f"  {flag}\n" for flag in listed(line)) for line in LINES)


def test_the_flags_are_those_that_were_promised(sparring):
    def listed(line):
        return re.findall(r"^  (--[\w.-]+)", sparring(f"{line} --help").out, flags=re.MULTILINE)

    assert frozen(listed) == FILE.read_text(encoding="utf-8")


if __name__ == "__main__":
    FILE.write_text(frozen(flags), encoding="utf-8")
