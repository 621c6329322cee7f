"""`sparring env`: what a bug report needs."""

from __future__ import annotations

from dataclasses import dataclass

from sparring.cli import console, record


@dataclass(frozen=True, kw_only=True)
class Options:
    """Print what a bug report needs: versions, platform, threads, devices, commits."""


def run(_: Options) -> int:
    """Print it."""
    machine = record.machine()
    facts = {
        **record.versions(),
        "platform": machine["platform"],
        "cores": f"{machine['cores']}, of which torch uses {machine['threads']}",
        "devices": ", ".join(machine["devices"]),
        **{f"commit, {where}": commit for where, commit in record.commits().items()},
        **record.settings(),
    }
    console.facts(facts.items(), width=max(map(len, facts)) + 2)
    return 0
