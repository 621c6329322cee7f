"""The example in docs/extending.md runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

from sparring.testing import CHECKS

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"


def test_the_example_method_runs_and_conforms() -> None:
    blocks = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    assert len(blocks) == 4
    names: dict = {"__name__": "extending"}
    outcomes = []
    for number, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
        outcomes.append(names.get("outcome"))
    assert [check.__name__ for check in CHECKS] == list(outcomes[1]) == list(outcomes[2])
    left = "an_example_has_the_same_perturbation_under_padding_on_the_left"
    assert {name for name, reason in outcomes[2].items() if reason} == {left}
