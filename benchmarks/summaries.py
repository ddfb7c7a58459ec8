"""Timing a call, and summaries of repeated measurements."""

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
