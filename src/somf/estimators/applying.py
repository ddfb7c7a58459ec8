"""A learned dictionary on samples: codes, with progress and Ctrl-C, of the rows of one rank."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter

import numpy as np

from somf.data import Source
from somf.data.sources.normalized import NormalizedSource
from somf.distributed import Communicator
from somf.inference.coding import CodedChunk, Coder, LearnedDictionary, Pursuit
from somf.kernels.host import to_host
from somf.training.callbacks import Progress
from somf.training.progress_bar import progress_bar
from somf.training.signals import prompt_signals
from somf.training.start import divide
from somf.typing import Array, Ints


@contextmanager
def coding(
    learned: LearnedDictionary,
    source: Source,
    tol: float,
    ids: Ints | None = None,
    *,
    entries_per_row: int = 0,
    verbose: int = 0,
    pursuit: Pursuit | None = None,
) -> Iterator[tuple[Coder, Iterator[CodedChunk]]]:
    """Give a coder, and samples of a source coded by it, a chunk at a time.

    Parameters
    ----------
    learned : LearnedDictionary
    source : Source
    tol : float
        Relative duality gap to which codes are solved.
    ids : ndarray of int, optional
        The samples; by default all.
    entries_per_row : int
        Entries that the caller is going to hold for every sample, besides its code.
    verbose : int
        1 shows a progress bar.
    pursuit : Pursuit, optional
        If given, codes are those of a pursuit.
    """
    ids = np.arange(source.shape[0]) if ids is None else ids
    progress = Progress(n_samples_planned=len(ids))
    with ExitStack() as stack:
        stack.enter_context(prompt_signals())
        coder = stack.enter_context(learned.coder(tol, pursuit))
        loader = learned.loader(source)
        show = stack.enter_context(progress_bar()) if verbose else None
        begin = perf_counter()

        def chunks() -> Iterator[CodedChunk]:
            for chunk in coder.chunks(loader, ids, entries_per_row):
                yield chunk
                progress.n_samples_seen += len(chunk.objective)
                progress.compute_seconds = perf_counter() - begin
                if show is not None:
                    show(progress)

        yield coder, chunks()


def on_scale_of(source: Source, chunks: Iterable[CodedChunk], ids: Ints) -> Iterator[Array]:
    """Yield codes on the host; those of normalised samples are multiplied by the norms.

    Parameters
    ----------
    source : Source
    chunks : iterable of CodedChunk
        The samples with the given ids, in order.
    ids : ndarray of int
    """
    at = 0
    for chunk in chunks:
        code = to_host(chunk.code)
        if isinstance(source, NormalizedSource):
            code = code * source.norms[ids[at : at + len(code)], None].astype(code.dtype)
        at += len(code)
        yield code


def rows_of_rank(source: Source, own_rows: bool, communicator: Communicator) -> Ints:
    """Return which rows of its source a rank works on.

    Parameters
    ----------
    source : Source
    own_rows : bool
        Whether the source has the rows of this rank alone.
    communicator : Communicator
    """
    rows = divide(source, own_rows, communicator)
    return rows.own - rows.origin
