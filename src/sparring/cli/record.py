"""What a result, or a bug report, says about where it came from."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "safetensors", "datasets", "numpy")
SETTINGS = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "HF_HUB_OFFLINE", "PYTORCH_ALLOC_CONF")


def provenance() -> dict[str, Any]:
    """All of it, for a results file."""
    return {"versions": versions(), "commits": commits(), "machine": machine(), "settings": settings()}


def versions() -> dict[str, str]:
    """Of this package, of Python, and of the libraries that decide numbers, which are not imported for it."""
    from sparring import __version__

    found = {"sparring": __version__, "python": platform.python_version()}
    return found | {name: known for name in PACKAGES if (known := _version(name))}


def commits() -> dict[str, str]:
    """The git commits of the working folder and, in a checkout, of this package; with `+` if changed."""
    package = Path(__file__).parents[1]
    own = _commit(package) if _git(package, "ls-files", "__init__.py") else ""
    return {name: commit for name, commit in (("here", _commit(Path.cwd())), ("sparring", own)) if commit}


def machine() -> dict[str, Any]:
    """The platform, the threads and the devices."""
    import torch

    cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "devices": cuda or (["mps"] if torch.backends.mps.is_available() else ["cpu"]),
    }


def settings() -> dict[str, str]:
    """The environment variables that change what is computed, where they are set."""
    return {name: os.environ[name] for name in SETTINGS if name in os.environ}


def peak_memory() -> dict[str, int]:
    """The largest memory so far in bytes: of the process, and of the GPU where there is one."""
    import torch

    peaks = {}
    if sys.platform != "win32":
        import resource

        scale = 1 if sys.platform == "darwin" else 1024
        peaks["process"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    if torch.cuda.is_available():
        peaks["gpu"] = torch.cuda.max_memory_allocated()
    return peaks


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit(folder: Path) -> str:
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}{'+' if changed else ''}" if commit else ""


def _git(folder: Path, *arguments: str) -> str:
    """What git answers; nothing where there is no git, or no repository."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
