"""Initial atoms by what `init` says, read from any source."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.algorithm.initialization import initial_atoms, non_negative_parts
from somf.data import Loader, Source, loader_for
from somf.distributed import ALONE, Communicator
from somf.errors import ParameterError
from somf.kernels.observed import Batch, Observed
from somf.training.config import TrainingConfig
from somf.training.samples import Samples
from somf.typing import Array, Matrix

SVD_SAMPLES = 1000
"""Samples whose singular vectors become initial atoms, at least. A tenth of them gave worse atoms
on hyperspectral pixels; more gave no better ones on any data."""

SVD_SAMPLES_PER_ATOM = 10
"""The same for every atom of the dictionary."""

SVD_ENTRIES = 2**24
"""Entries of these samples that are held in memory, at most."""


def initial_dictionary(
    config: TrainingConfig,
    source: Source,
    samples: Samples,
    seed: int,
    communicator: Communicator = ALONE,
) -> Array:
    """Return initial atoms inside the ball, features in the order of the data, as (p, k)."""
    dtype, k = config.dtype_for(source.dtype), config.n_components
    if isinstance(config.init, str):
        loader, init = loader_for("cpu", source, dtype), config.init_in_use
        if init == "nndsvd":
            rows = _parts_then_samples(loader, samples, k, seed, communicator)
        else:
            n_samples = k if init == "samples" else 0
            rows = _random_samples(loader, samples, n_samples, seed, communicator)
        return initial_atoms(rows, k, config.ball, seed)
    if config.init.shape[1] != source.shape[1]:
        raise ParameterError(
            "init",
            f"have n_features={source.shape[1]} columns",
            config.init,
            got=str(config.init.shape[1]),
        )
    return np.stack([config.ball.project(atom) for atom in config.init.astype(dtype)], axis=1)


def _parts_then_samples(
    loader: Loader, samples: Samples, n_components: int, seed: int, communicator: Communicator
) -> Array:
    """Return the parts of singular vectors of some samples, and samples if these are too few."""
    most = int(SVD_ENTRIES / loader.source.entries_per_row)
    wanted = max(SVD_SAMPLES, SVD_SAMPLES_PER_ATOM * n_components)
    # The first samples of an epoch: few chunks have to be read for them.
    n_own = samples.first(max(n_components, min(wanted, most)))[samples.rows.rank]
    order = samples.order(loader, seed, 0)[:n_own]
    X: Any = loader.load(np.sort(order)) if len(order) else loader.nothing()
    X = gathered(X.values if isinstance(X, Observed) else X, communicator)
    parts = non_negative_parts(X, n_components, seed)
    n_missing = n_components - len(parts)
    rows = np.concatenate([parts, _dense(X[:n_missing])]) if n_missing else parts
    # All ranks have computed the same, up to rounding; rank 0 decides.
    return communicator.sum(rows if communicator.rank == 0 else np.zeros_like(rows))[0]


def _random_samples(
    loader: Loader, samples: Samples, n_samples: int, seed: int, communicator: Communicator
) -> Array:
    """Return some samples, as many from each rank as it has of all; fewer if there are no more."""
    counts, rank = samples.first(n_samples), samples.rows.rank
    chosen = samples.generator(seed, "init").permutation(samples.ids)[: counts[rank]]
    rows = np.zeros((int(counts.sum()), loader.source.shape[1]), loader.dtype)
    if len(chosen):
        first = int(counts[:rank].sum())
        rows[first : first + len(chosen)] = _dense(loader.load(chosen))
    return communicator.sum(rows)[0]


def gathered(X: Matrix, communicator: Communicator) -> Matrix:
    """Return the samples of all ranks, one rank after the other."""
    if communicator.size == 1:
        return X
    if isinstance(X, np.ndarray):
        return np.concatenate(communicator.gather(X))
    rows = sp.csr_array(X)
    arrays = (rows.data, rows.indices.astype(np.int64), np.diff(rows.indptr).astype(np.int64))
    data, indices, lengths = (np.concatenate(communicator.gather(array)) for array in arrays)
    indptr = np.append(0, np.cumsum(lengths))
    return sp.csr_array((data, indices, indptr), shape=(len(lengths), X.shape[1])).tocsc()


def _dense(X: Batch) -> Array:
    """Return samples as an array, with zeros where nothing is known."""
    X = X.values if isinstance(X, Observed) else X
    return X if isinstance(X, np.ndarray) else X.toarray()
