"""Timing a call, summaries of repeated measurements, and when a curve reaches a target."""

from collections.abc import Callable
from statistics import median, quantiles
from time import perf_counter


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    begin = perf_counter()
    call()
    return perf_counter() - begin


def summary(values: list[float]) -> dict[str, float]:
    """Return median and quartiles."""
    low, middle, high = quantiles(values, n=4) if len(values) > 1 else values * 3
    return {"median": middle, "low": low, "high": high}


def extent(values: list[float]) -> dict[str, float]:
    """Return median, minimum and maximum."""
    return {"median": median(values), "low": min(values), "high": max(values)}


def first_time(times: list[float], objectives: list[float], target: float) -> float | None:
    """Return when an objective was first reached, by linear interpolation."""
    for i, objective in enumerate(objectives):
        if objective <= target:
            before = objectives[i - 1] if i > 0 else objective
            part = (before - target) / (before - objective) if before > objective else 1.0
            return times[i] if i == 0 else times[i - 1] + part * (times[i] - times[i - 1])
    return None
