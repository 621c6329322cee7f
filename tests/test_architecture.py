"""Imports point one way, heavy libraries stay in one file each, files stay short, and importing stays cheap.

`violations(package)` reads the sources without running them; tests below show that it sees each kind of
mistake.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "sparring"

# cli -> study, report -> evaluation, attacks, loops, tasks, data -> methods -> core.
LAYERS = {
    "core": "anatomy ascent balls divergences errors figures game inject method probe randomness sites"
    " wrappers",
    "methods": "methods",
    "testing": "testing",
    "parts": "attacks data evaluation loops tasks",
    "studies": "report study",
    "cli": "cli __main__",
}
LAYER_OF = {module: layer for layer, modules in LAYERS.items() for module in modules.split()}
MAY_IMPORT = {
    "core": {"core"},
    "methods": {"core", "methods"},
    "__init__": {"core", "methods"},
    "testing": {"core", "methods", "__init__", "testing"},
    "parts": {"core", "methods", "__init__", "parts"},
    "studies": {"core", "methods", "__init__", "parts", "studies"},
    "cli": {"core", "methods", "__init__", "parts", "studies", "cli"},
}
ONLY_TORCH = {"core", "methods", "__init__", "testing"}
IN_ONE_FILE = {"datasets", "jinja2", "jsonargparse", "matplotlib", "pyarrow", "rich", "scipy", "sklearn"}
HUGGING_FACE = {"accelerate", "transformers"}
MAY_USE_HUGGING_FACE = ("loops/huggingface.py", "loops/accelerate.py", "tasks/", "cli/")
OF_THOSE = {"numpy", "safetensors", "torch", "yaml"}  # what torch, transformers and jsonargparse bring along
LONGEST, LONGEST_METHOD = 300, 150  # lines


class Import(NamedTuple):
    file: str
    line: int
    module: str  # absolute, with the imported name: `from a import b` may mean the module a.b


def imports(package: Path, path: Path) -> list[Import]:
    """All imports of a file, also those inside functions, relative ones and `import_module("...")`."""
    file = path.relative_to(package).as_posix()
    here = [package.name, *path.relative_to(package).parts[:-1]]
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found += [Import(file, node.lineno, alias.name) for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                start = ".".join(here[: len(here) - level + 1]) if level else ""
                origin = ".".join(part for part in (start, module) if part)
                found += [Import(file, node.lineno, f"{origin}.{alias.name}") for alias in names]
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(module)), *_]
            ):
                if name in {"import_module", "__import__"}:
                    found.append(Import(file, node.lineno, module))
    return found


def layer_of(module: str) -> str | None:
    """The layer of a file's or a module's path below the package."""
    first = module.removesuffix(".py").split("/")[0]
    return "__init__" if first == "__init__" else LAYER_OF.get(first)


def violations(package: Path) -> list[str]:
    """What breaks the rules in the package at this path, one line each."""
    wrong, users = [], defaultdict(set)
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        wrong += too_long(file, len(path.read_text(encoding="utf-8").splitlines()))
        if layer_of(file) is None:
            wrong.append(f"{file} belongs to no layer: add it to LAYERS")
            continue
        for found in imports(package, path):
            library = found.module.split(".")[0]
            if library == package.name:
                wrong += upward(package, found)
            elif library not in sys.stdlib_module_names:
                users[library].add(file)
                wrong += foreign(found, library)
    for library in sorted(IN_ONE_FILE):
        if len(users[library]) > 1:
            wrong.append(f"{library} is imported in {', '.join(sorted(users[library]))}: one file only")
    return wrong


def too_long(file: str, lines: int) -> list[str]:
    most = LONGEST_METHOD if file.startswith("methods/") else LONGEST
    return [f"{file} has {lines} lines, more than {most}"] if lines > most else []


def upward(package: Path, found: Import) -> list[str]:
    """An import of our own: from the same or a lower layer. A name of the root package is the root's."""
    name = f"{found.module}.__init__".split(".")[1]
    module = name if (package / name).is_dir() or (package / f"{name}.py").is_file() else "__init__"
    mine, theirs = layer_of(found.file), layer_of(module)
    if theirs is None or theirs in MAY_IMPORT[mine]:  # a module of no layer is reported as such
        return []
    return [f"{found.file}:{found.line} imports {package.name}.{module}: {mine} may not import {theirs}"]


def foreign(found: Import, library: str) -> list[str]:
    """An import of other people's."""
    where = f"{found.file}:{found.line}"
    if library == "torch":
        return []
    if layer_of(found.file) in ONLY_TORCH:
        return [f"{where} imports {library}: {layer_of(found.file)} imports torch only"]
    if library in HUGGING_FACE:
        allowed = found.file.startswith(MAY_USE_HUGGING_FACE)
        return [] if allowed else [f"{where} imports {library}: only {', '.join(MAY_USE_HUGGING_FACE)} may"]
    if library not in IN_ONE_FILE | OF_THOSE:
        return [
            f"{where} imports {library}, which no rule allows: add it to IN_ONE_FILE and to pyproject.toml"
        ]
    return []


def loaded_by(code: str, source: Path) -> set[str]:
    """The top-level modules that a new interpreter has loaded after running the code."""
    script = f"{code}\nimport sys\nprint(*(name for name in sys.modules if '.' not in name))"
    environment = {**os.environ, "PYTHONPATH": str(source)}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


# -- the package -------------------------------------------------------------------------------------------


def test_the_package_keeps_the_rules() -> None:
    assert violations(PACKAGE) == []


def test_all_layers_are_ranked_and_the_package_is_found() -> None:
    assert set(MAY_IMPORT) == {*LAYERS, "__init__"}
    assert len(list(PACKAGE.rglob("*.py"))) > 20


def test_the_library_loads_torch_and_nothing_heavy() -> None:
    loaded = loaded_by("import sparring\nsparring.FreeLB", PACKAGE.parent)
    assert "torch" in loaded
    assert loaded & (HUGGING_FACE | IN_ONE_FILE) == set()


def test_the_command_line_starts_without_torch() -> None:
    loaded = loaded_by("import sparring.cli", PACKAGE.parent)
    assert "sparring" in loaded
    assert loaded & {"torch", "numpy", *HUGGING_FACE, *IN_ONE_FILE} == set()


# -- the checker sees each kind of mistake -----------------------------------------------------------------

GOOD = {
    "__init__.py": "from sparring.balls import L2\nfrom sparring.methods import FGM\n__version__ = '1'",
    "balls.py": "import math\nimport torch\nfrom torch import nn",
    "inject/__init__.py": "from sparring.inject.outputs import Shift",
    "inject/outputs.py": "Shift = 1",
    "methods/__init__.py": "from sparring.methods.fgm import FGM",
    "methods/fgm.py": "from sparring import balls\nfrom sparring.inject import Shift",
    "testing.py": "from sparring.methods import FGM",
    "loops/plain.py": "from sparring.methods import FGM\nfrom sparring.data import reading",
    "loops/huggingface.py": "import transformers\nimport accelerate",
    "data/reading.py": "def read():\n    import datasets\n    from datasets import load_dataset",
    "report/plots.py": "import matplotlib.pyplot\nimport sparring.evaluation.sweep",
    "evaluation/sweep.py": "from sparring import FGM, __version__\nimport numpy",
    "cli/__init__.py": "from sparring.report import plots\nfrom sparring.cli import train",
    "cli/train.py": "from transformers import AutoModel",
    "__main__.py": "from sparring.cli import main",
}

BAD = {
    "the core imports a method": (
        "balls.py",
        "from sparring.methods import FGM",
        "balls.py:1 imports sparring.methods: core",
    ),
    "the core imports the root": (
        "balls.py",
        "import sparring",
        "balls.py:1 imports sparring.__init__: core",
    ),
    "a method imports the root": (
        "methods/fgm.py",
        "from sparring import FGM",
        "methods may not import __init__",
    ),
    "a submodule through the root": (
        "methods/fgm.py",
        "from sparring import loops",
        "methods may not import parts",
    ),
    "inside a function": (
        "balls.py",
        "def f():\n    import sparring.cli",
        "balls.py:2 imports sparring.cli: core",
    ),
    "for types only": (
        "balls.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sparring.loops import plain",
        "balls.py:3 imports sparring.loops",
    ),
    "relative, one up": ("methods/fgm.py", "from ..loops import plain", "methods may not import parts"),
    "relative, beside": ("methods/__init__.py", "from .. import cli", "methods may not import cli"),
    "by its name": (
        "game.py",
        "import importlib\nimportlib.import_module('sparring.cli')",
        "game.py:2 imports sparring.cli",
    ),
    "by dunder": ("game.py", "__import__('rich')", "game.py:1 imports rich: core"),
    "a method imports a loop": (
        "methods/fgm.py",
        "import sparring.loops.plain",
        "methods may not import parts",
    ),
    "the root imports a loop": (
        "__init__.py",
        "from sparring.loops import plain",
        "__init__ may not import parts",
    ),
    "a loop imports a report": ("loops/plain.py", "import sparring.report", "parts may not import studies"),
    "a report imports the command line": (
        "report/plots.py",
        "import sparring.cli",
        "studies may not import cli",
    ),
    "a loop imports testing": ("loops/plain.py", "import sparring.testing", "parts may not import testing"),
    "testing imports a loop": ("testing.py", "import sparring.loops.plain", "testing may not import parts"),
    "the core imports a library": (
        "balls.py",
        "import numpy as np",
        "balls.py:1 imports numpy: core imports torch only",
    ),
    "a method imports one lazily": (
        "methods/fgm.py",
        "def f():\n    import transformers",
        "methods/fgm.py:2 imports transformers",
    ),
    "testing imports a library": ("testing.py", "import transformers", "testing imports torch only"),
    "transformers in a report": (
        "report/plots.py",
        "import transformers",
        "report/plots.py:1 imports transformers: only",
    ),
    "accelerate in the plain loop": (
        "loops/plain.py",
        "from accelerate import Accelerator",
        "imports accelerate: only",
    ),
    "a second file with a heavy library": (
        "loops/plain.py",
        "import datasets",
        "datasets is imported in data/reading.py, loops/plain.py: one file only",
    ),
    "an unknown library": (
        "cli/train.py",
        "import pandas",
        "cli/train.py:1 imports pandas, which no rule allows",
    ),
    "a file of no layer": ("utils.py", "", "utils.py belongs to no layer"),
    "a long method": ("methods/fgm.py", "\n" * 151, "methods/fgm.py has 151 lines, more than 150"),
    "a long file": ("cli/train.py", "\n" * 301, "cli/train.py has 301 lines, more than 300"),
}


def tree(folder: Path, files: dict[str, str]) -> Path:
    package = folder / "sparring"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return package


def test_a_good_tree_has_no_violations(tmp_path: Path) -> None:
    assert violations(tree(tmp_path, GOOD)) == []


def test_lengths_at_the_limit_are_allowed(tmp_path: Path) -> None:
    files = {**GOOD, "methods/fgm.py": "\n" * 150, "cli/train.py": "\n" * 300}
    assert violations(tree(tmp_path, files)) == []


@pytest.mark.parametrize(("file", "text", "expected"), BAD.values(), ids=BAD.keys())
def test_one_mistake_is_one_violation(tmp_path: Path, file: str, text: str, expected: str) -> None:
    found = violations(tree(tmp_path, {**GOOD, file: text}))
    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize("library", sorted(IN_ONE_FILE))
def test_each_heavy_library_is_kept_to_one_file(tmp_path: Path, library: str) -> None:
    files = {"cli/train.py": f"import {library}", "cli/report.py": f"def f():\n    from {library} import x"}
    assert violations(tree(tmp_path, files)) == [
        f"{library} is imported in cli/report.py, cli/train.py: one file only"
    ]


def test_loaded_modules_are_seen_through_lazy_code(tmp_path: Path) -> None:
    package = tree(tmp_path, {"__init__.py": "def f():\n    import heavy", "cli.py": ""})
    (tmp_path / "heavy.py").touch()
    assert "heavy" not in loaded_by("import sparring.cli", package.parent)
    assert "heavy" in loaded_by("import sparring\nsparring.f()", package.parent)
