"""Copies of rows for messages, divided among threads: one core does not use the memory's speed."""

from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.rows import count_rows, shares
from somf.kernels.cpu.threads import threads_for
from somf.typing import Array, Ints, Slices


def pack_rows(A: Array, rows: Slices, packed: Array) -> None:
    """See `Kernels.pack_rows`."""
    _copy(A, rows, packed, True)


def unpack_rows(packed: Array, A: Array, rows: Slices) -> None:
    """See `Kernels.unpack_rows`."""
    _copy(A, rows, packed, False)


def _copy(A: Array, rows: Slices, packed: Array, packs: bool) -> None:
    threads = threads_for(A.shape[1] * count_rows(rows))
    pieces, edges = shares(rows, threads.count)
    _copy_pieces(threads.count, A, packed, packs, pieces, edges)


@region
def _copy_pieces(
    launcher: int, A: Array, packed: Array, packs: bool, pieces: Ints, edges: Ints
) -> None:
    in_parallel(_copy_share, launcher, len(edges) - 1, A, packed, packs, pieces, edges)


@inner
def _copy_share(t: int, A: Array, packed: Array, packs: bool, pieces: Ints, edges: Ints) -> None:
    for n in range(edges[t], edges[t + 1]):
        start, before = pieces[n, 0], pieces[n, 2]
        for row in range(pieces[n, 1] - start):
            if packs:
                _copy_row(A[start + row], packed[before + row])
            else:
                _copy_row(packed[before + row], A[start + row])


@inner
def _copy_row(source: Array, target: Array) -> None:
    for j in range(len(target)):
        target[j] = source[j]
