"""Results for people: plots."""

from sparring.report.plots import robustness_plot

__all__ = ["robustness_plot"]
