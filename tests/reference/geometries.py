"""Balls, with sizes at which every branch of an ascent binds, and the references' words for them."""

from __future__ import annotations

from dataclasses import dataclass

from sparring import L2, Linf
from sparring.balls import Ball


@dataclass(frozen=True)
class Geometry:
    ball: Ball
    step_size: float
    start: float
    norm: str = "l2"
    step: str = "steepest"

    def ours(self) -> dict:
        return {"ball": self.ball, "step_size": self.step_size, "start": self.start, "unit": 1.0}

    def theirs(self) -> dict:
        return {
            "step_size": self.step_size,
            "size": self.start,
            "radius": 0.0 if self.ball.radius == float("inf") else self.ball.radius,
            "norm": self.norm,
            "step": self.step,
            "over": self.ball.over,
        }


GEOMETRIES = {
    "l2": Geometry(L2(0.5), 0.3, 0.4),
    "l2 from the text": Geometry(L2(0.5), 0.3, 0.0),
    "l2 unbounded": Geometry(L2(), 0.3, 0.4),
    "l2 per token": Geometry(L2(0.15, over="token"), 0.1, 0.1),
    "linf": Geometry(Linf(0.05), 0.03, 0.03, norm="linf"),
    "linf scaled": Geometry(Linf(0.1, step="scaled"), 0.1, 0.05, norm="linf", step="scaled"),
    "linf scaled per token": Geometry(
        Linf(0.1, over="token", step="scaled"), 0.08, 0.05, norm="linf", step="scaled"
    ),
}
