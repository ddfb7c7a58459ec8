"""Measurements of many data sets, in several processes if fits of one thread each are compared."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from multiprocessing import get_context
from typing import Any, TypeAlias

from benchmarks.datasets import DATASETS, Dataset
from benchmarks.unseen_datasets import UNSEEN

Job: TypeAlias = tuple[Any, ...]
"""What is to be measured; the name of the data set comes first."""

Rows: TypeAlias = list[dict[str, Any]]
"""Results of a job."""


@lru_cache(1)
def load(name: str) -> Dataset:
    """Return a data set by its name; some take longer to make than a fit, and jobs are in order."""
    return (DATASETS | UNSEEN)[name]()


def by_data(
    measure: Callable[[Job], tuple[str, Rows]], jobs: Sequence[Job], n_processes: int
) -> Iterator[tuple[str, Rows]]:
    """Yield the results of every data set as soon as all of its jobs are done.

    Parameters
    ----------
    measure : callable
        Returns the name of the data set of a job, and its results.
    jobs : sequence of tuples
    n_processes : int
    """
    n_left, rows = Counter(name for name, *_ in jobs), defaultdict[str, Rows](list)
    with get_context("spawn").Pool(n_processes) as pool:
        for name, found in pool.imap_unordered(measure, jobs):
            rows[name] += found
            n_left[name] -= 1
            if not n_left[name]:
                yield name, rows[name]
