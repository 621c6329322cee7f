"""What a result, or a bug report, needs to say about where it came from."""

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


def versions() -> dict[str, str]:
    """Of this package, Python and the libraries that decide numbers; without importing them."""
    from sparring import __version__

    found = {"sparring": __version__, "python": platform.python_version()}
    return found | {name: known for name in PACKAGES if (known := _version(name))}


def commits() -> dict[str, str]:
    """The git commits of the working folder and, where it runs from a checkout, of this package; `+` with changes."""
    package = Path(__file__).parents[1]
    here, own = _commit(Path.cwd()), _commit(package) if _git(package, "ls-files", "__init__.py") else ""
    return {name: commit for name, commit in (("here", here), ("sparring", own)) if commit}


def machine() -> dict[str, Any]:
    """The platform, the threads and the devices."""
    import torch

    cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return {
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "devices": cuda or mps or ["cpu"],
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
    changed = "+" if _git(folder, "status", "--porcelain", "--untracked-files=no") else ""
    commit = _git(folder, "rev-parse", "HEAD")
    return commit + changed if commit else ""


def _git(folder: Path, *arguments: str) -> str:
    """What git answers; nothing where there is no git, or no repository."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
