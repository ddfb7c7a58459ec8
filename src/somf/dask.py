"""Fits inside the workers of a Dask cluster, next to the data that they hold."""

import os
import socket
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from somf.data import StackedSource, as_source
from somf.distributed.connection import meet, part
from somf.distributed.environment import Launch
from somf.errors import DataError, ParameterError, RankError
from somf.estimators.base import MatrixFactorization
from somf.optional import import_optional
from somf.typing import Array

__all__ = ["fit"]

SECONDS_TO_END = 5.0
"""Seconds that all other ranks have to end after one of them has failed."""


def fit(
    client: Any, model: MatrixFactorization, X: Any, *, validation: Any = None
) -> MatrixFactorization:
    """Learn a dictionary on all workers of a cluster, each of them a rank.

    Parameters
    ----------
    client : distributed.Client
        Of a cluster whose workers are processes, each with a free thread.
    model : MatrixFactorization
        The parameters of the fit. It is not changed.
    X : dask.array.Array of shape (n_samples, n_features), path or list of paths
        A partition of an array is learned from on the worker that holds it. Files must be there on
        all workers, each of which reads a part of their rows.
    validation : float, path or array-like, optional
        See `MatrixFactorization.fit`.

    Returns
    -------
    model : MatrixFactorization
        The fitted model.
    """
    distributed = import_optional("distributed", "dask", "somf.dask")
    processes = client.run(_process)
    workers = sorted(processes)
    _check_processes(processes)
    parts: list[list[Any] | None] = [None] * len(workers)
    if hasattr(X, "dask"):
        held = _partitions(distributed, client, X, workers)
        workers = [worker for worker in workers if held[worker]]
        parts = [held[worker] for worker in workers]
    host = urlsplit(workers[0]).hostname
    port = client.submit(_free_port, workers=[workers[0]], pure=False).result()
    futures = [
        client.submit(
            _fit_rank,
            Launch(rank, len(workers), rank, str(host), port, "Dask"),
            model,
            None if own is not None else X,
            own,
            validation,
            workers=[worker],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )
        for rank, (worker, own) in enumerate(zip(workers, parts, strict=True))
    ]
    return _first_of(distributed, futures)


def _partitions(distributed: Any, client: Any, X: Any, workers: list[str]) -> dict[str, list[Any]]:
    """Return the partitions of an array on each worker, in the order of their rows."""
    if X.ndim != 2:
        raise DataError(f"Expected 2D array, got {X.ndim}D array instead.")
    persisted = client.persist(X.rechunk({1: -1}))
    futures = client.compute(persisted.to_delayed().ravel().tolist())
    distributed.wait(futures)
    holders = client.who_has(futures)
    held: dict[str, list[Any]] = {worker: [] for worker in workers}
    for future in futures:
        where = [worker for worker in holders[future.key] if worker in held]
        held[min(where or workers, key=lambda worker: len(held[worker]))].append(future)
    return held


def _check_processes(processes: dict[str, tuple[str, int]]) -> None:
    if not processes:
        raise ParameterError("client", "have at least one worker", processes, got="none")
    if len(set(processes.values())) < len(processes):
        raise ParameterError(
            "client",
            "have workers that are processes of their own",
            processes,
            "Start the cluster with processes=True.",
            got="several in one process",
        )


def _process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("", 0))
        return int(free.getsockname()[1])


def _fit_rank(
    launch: Launch,
    model: MatrixFactorization,
    X: Any,
    own: list[Array] | None,
    validation: Any,
) -> MatrixFactorization | None:
    """Fit as one rank; return the model on rank 0."""
    if launch.size > 1:
        meet(launch)
    try:
        if own is None:
            model.fit(X, validation=validation)
        else:
            names = [f"partition {n}" for n in range(len(own))]
            source = StackedSource([as_source(np.asarray(block)) for block in own], names)
            model.fit(source, validation=validation, ranks="own")
    finally:
        part()
    return model if launch.rank == 0 else None


def _first_of(distributed: Any, futures: list[Any]) -> MatrixFactorization:
    """Return what rank 0 returns, or raise the error of the rank that has failed first."""
    for future in distributed.as_completed(futures):
        if future.status != "finished":
            break
    else:
        fitted: MatrixFactorization = futures[0].result()
        return fitted
    with suppress(TimeoutError):  # a worker that was killed does not end its task
        distributed.wait(futures, timeout=SECONDS_TO_END)
    errors = [future.exception() for future in futures if future.status == "error"]
    for future in futures:
        future.cancel()
    # Others than the rank that has failed have errors that name it.
    raise min(errors, key=lambda error: isinstance(error, RankError))
