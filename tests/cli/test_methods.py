from __future__ import annotations

import pytest

from sparring import METHODS
from sparring.cli.methods import about


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_listed_with_its_cost_its_words_and_its_paper(name, sparring):
    done = sparring("methods")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    (first,) = (i for i, line in enumerate(lines) if line.startswith(f"{name} "))
    assert lines[first].split(maxsplit=1)[1].startswith(str(METHODS[name]().passes))
    words = " ".join(done.out.split())
    for line in about(METHODS[name]):
        assert line in words


def test_what_is_said_comes_from_the_docstring():
    what, when, paper = about(METHODS["pgd"])
    assert (
        what == "Projected gradient descent training: K ascent steps, then train on the point where they end."
    )
    assert when.startswith("Prefer it where robustness in a known ball is what you want")
    assert paper == "Madry et al. 2018, https://arxiv.org/abs/1706.06083"
