"""The wheel holds all that the package needs, and works where the sources are not."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import sparring

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel installed; what it depends on is this interpreter's."""
    folder = tmp_path_factory.mktemp("installed")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--target",
        str(folder),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True, text=True)
    return folder


def run(command: list[str], installed: Path, folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    package = ROOT / "src" / "sparring"
    sources = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert "sparring/py.typed" in held
    assert held == sources


def test_the_installed_package_imports_from_another_folder(installed: Path, tmp_path: Path) -> None:
    code = "import sparring; print(sparring.__file__, sparring.__version__, sparring.FreeLB.__name__)"
    file, version, name = run([sys.executable, "-c", code], installed, tmp_path).split()
    assert Path(file) == installed / "sparring" / "__init__.py"
    assert (version, name) == (sparring.__version__, "FreeLB")


def test_the_installed_command_prints_its_help(installed: Path, tmp_path: Path) -> None:
    text = run([str(installed / "bin" / "sparring"), "--help"], installed, tmp_path)
    assert "usage: sparring" in text
    assert "train" in text


def test_the_metadata_states_licence_and_needs(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    lines = archive.read(name).decode().splitlines()
    assert "License-Expression: Apache-2.0" in lines
    assert [line for line in lines if line.startswith("Requires-Dist:") and "extra ==" not in line] == [
        "Requires-Dist: torch>=2.6"
    ]
