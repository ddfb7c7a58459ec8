"""Minibatches in the memory of a GPU."""

import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from somf.data.loader import Loader, check_finite
from somf.data.patches import ImagePatches
from somf.data.readahead import read_ahead
from somf.data.source import Source
from somf.kernels import cuda
from somf.kernels.cuda_patches import cut_patches
from somf.typing import Array, Ints, Matrix

READING_THREADS = 2
"""While one waits for the device to look at its minibatch, the other begins the next one."""

PIECE_BYTES, N_PIECES, COPYING_THREADS = 2**25, 3, 8
"""Pinned memory of a reading thread, and the threads that fill it."""


class DeviceLoader(Loader):
    """Reads rows as they are into pinned memory; converts, permutes and checks them on the device.

    All of this happens in the background, on a stream of its own, while the device computes. An
    image whose patches are the samples goes to the device once, and patches are cut out there.

    Parameters
    ----------
    source, dtype, permutation, non_negative, name
        See `Loader`.
    """

    def __init__(
        self,
        source: Source,
        dtype: np.dtype[Any],
        permutation: Ints | None = None,
        non_negative: bool = False,
        name: str = "X",
    ) -> None:
        super().__init__(source, dtype, permutation, non_negative, name)
        self._floating = torch.from_numpy(np.empty(0, dtype)).dtype
        self._order = None if permutation is None else cuda.to_device(permutation)
        self._reading = threading.local()
        on_gpu = cuda.DEVICE.type == "cuda"
        self._computing = torch.cuda.current_stream() if on_gpu else None
        self._image: DeviceImage | None = None
        if isinstance(source, ImagePatches) and cuda.has_room(source.image.nbytes):
            self._image = DeviceImage(source, self._order, self._floating)
            self._warn_if_negative(self._image.has_negatives)
        if self._computing is not None:
            self._computing.synchronize()  # other streams are going to use the order

    def load(self, ids: Ints) -> Any:
        """Return samples as a minibatch on the device."""
        if self._image is None:
            return super().load(ids)
        X = self._image.patches(ids)
        return X if self._image.is_finite else self._checked(X, ids)

    @contextmanager
    def stream(self, batches: Sequence[Ints]) -> Iterator[Iterator[Matrix]]:
        """See `Loader.stream`; patches that are cut out on the device need no reading ahead."""
        if self._image is not None:
            yield map(self.load, batches)
            return
        # Chunks are kept and given up in the order of minibatches: a matter for one thread.
        n_threads = 1 if self._keeps_chunks else READING_THREADS
        with self._planned(batches) as (fetch, n_ahead):

            def load(ids: Ints) -> Any:
                return self._prepare(*fetch(ids)(), ids)

            with read_ahead(load, batches, n_ahead, n_threads) as minibatches:
                yield minibatches

    def _prepare(self, X: Array | sp.csr_array, picked: Ints, ids: Ints) -> Any:
        with self._on_own_stream():
            if isinstance(X, np.ndarray):
                rows = self._uploaded(X, picked)
                if self._order is not None:
                    rows = rows.index_select(1, self._order)
                batch = self._checked(rows.to(self._floating), ids)
            else:
                batch = cuda.to_device(self._sparse(X[picked], ids))
        if self._computing is not None:
            batch.record_stream(self._computing)  # not to be reused before it has been worked on
        return batch

    @contextmanager
    def _on_own_stream(self) -> Iterator[None]:
        """Let a reading thread use the device beside what it computes; wait for it in the end."""
        if self._computing is None:
            yield
            return
        if not hasattr(self._reading, "stream"):
            self._reading.stream = torch.cuda.Stream()
        with torch.cuda.stream(self._reading.stream):
            yield
        self._reading.stream.synchronize()

    def _uploaded(self, X: Array, picked: Ints) -> Any:
        """Return rows of an array on the device, by way of memory that is pinned."""
        is_short = X.dtype == np.uint16
        if is_short:
            X = X.view(np.int16)  # torch can do little with it
        elif not X.dtype.isnative or X.dtype.kind not in "fi" or X.itemsize > 8:
            X, picked = X[picked].astype(self.dtype), np.arange(len(picked))
        rows = torch.empty(
            (len(picked), X.shape[1]), dtype=_tensor(X[:0]).dtype, device=cuda.DEVICE
        )
        if not hasattr(self._reading, "staging"):
            self._reading.staging = Staging()
        self._reading.staging.send(X, picked, rows)
        return rows.int() & 0xFFFF if is_short else rows

    def _checked(self, X: Any, ids: Ints) -> Any:
        """Return a minibatch after a look for NaN, infinity and, if unwanted, negative entries."""
        if not torch.isfinite(X).all():
            rows = X.cpu().numpy()
            check_finite(rows, rows, ids, self.name)
        if self.non_negative:
            self._warn_if_negative(bool((X < 0).any()))
        return X


class Staging:
    """Pinned memory by which a thread sends rows to the device.

    There are a few pieces: while one is being sent, others are filled. Pieces that stay in the
    cache of the CPU were seen to be nearly twice as fast as whole minibatches, and small ones much
    slower, since every piece costs the host some work.
    """

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.sent: list[Any] = []
        self.copiers = ThreadPoolExecutor(COPYING_THREADS, "somf-copy")

    def send(self, X: Array, picked: Ints, rows: Any) -> None:
        """Copy rows of an array to the device, on the current stream, without waiting for the last.

        Parameters
        ----------
        X : ndarray of shape (n, p)
        picked : ndarray of shape (b,)
        rows : tensor of shape (b, p), overwritten
        """
        row_bytes = X.shape[1] * X.itemsize
        self._reserve(max(PIECE_BYTES, row_bytes))
        per_piece = len(self.pieces[0]) // row_bytes
        for number, start in enumerate(range(0, len(picked), per_piece)):
            part, turn = slice(start, start + per_piece), number % N_PIECES
            if self.sent:
                self.sent[turn].synchronize()
            ids = picked[part]
            piece = self.pieces[turn][: len(ids) * row_bytes].numpy().view(X.dtype)
            copy = piece.reshape(len(ids), X.shape[1])
            self._copy(X, ids, copy)
            rows[part].copy_(torch.from_numpy(copy), non_blocking=True)
            if self.sent:
                self.sent[turn].record()

    def _reserve(self, size: int) -> None:
        if self.pieces and len(self.pieces[0]) >= size:
            return
        on_gpu = cuda.DEVICE.type == "cuda"
        self.pieces = [
            torch.empty(size, dtype=torch.uint8, pin_memory=on_gpu) for _ in range(N_PIECES)
        ]
        self.sent = [torch.cuda.Event() for _ in self.pieces] if on_gpu else []

    def _copy(self, X: Array, ids: Ints, rows: Array) -> None:
        """Copy rows with several threads: one alone cannot use the memory of a machine."""

        def copy(part: Ints) -> None:
            if part.size:
                out = rows[part[0] : part[-1] + 1]
                np.take(X, ids[part], axis=0, out=out, mode="clip")  # "raise" would copy twice

        list(self.copiers.map(copy, np.array_split(np.arange(len(ids)), COPYING_THREADS)))


class DeviceImage:
    """An image on the device, in its own type, and the patches to cut out of it.

    Parameters
    ----------
    source : ImagePatches
    order : tensor of shape (p,), optional
        The feature that goes to each column.
    dtype : torch.dtype
        Of the patches.

    Attributes
    ----------
    is_finite : bool
        Whether all of the image is.
    has_negatives : bool
        Whether patches have negative entries.
    """

    def __init__(self, source: ImagePatches, order: Any, dtype: torch.dtype) -> None:
        self.center, self.scale, self.dtype = source.center, source.scale, dtype
        image = source.image
        image = image.astype(image.dtype.newbyteorder("="), copy=False)
        if image.dtype.kind in "ub":  # torch can do little with them
            image = image.astype(np.int32 if image.itemsize <= 2 else np.float64)
        self.pixels = _tensor(np.ascontiguousarray(image)).to(cuda.DEVICE).view(-1)
        width, n_channels = image.shape[1], int(np.prod(image.shape[2:]))
        corners = (source.positions[:, 0] * width + source.positions[:, 1]) * n_channels
        self.corners = cuda.to_device(corners)
        rows, columns = (np.arange(n) for n in source.patch_shape[:2])
        inside = (rows[:, None] * width + columns)[:, :, None] * n_channels + np.arange(n_channels)
        self.offsets = cuda.to_device(inside.ravel())
        if order is not None:
            self.offsets = self.offsets[order]
        self.is_finite = bool(torch.isfinite(self.pixels).all())
        self.has_negatives = self.center or bool((self.pixels < 0).any())

    def patches(self, ids: Ints) -> Any:
        """Return patches as rows, normalised like those of `gather.cut_patches`.

        Parameters
        ----------
        ids : ndarray of shape (b,)

        Returns
        -------
        X : tensor of shape (b, p)
        """
        corners = self.corners.index_select(0, cuda.to_device(ids))
        X = torch.empty((len(ids), len(self.offsets)), dtype=self.dtype, device=cuda.DEVICE)
        cut_patches(self.pixels, corners, self.offsets, self.center, self.scale, X)
        return X


def _tensor(array: Array) -> Any:
    """Return an array as a tensor without a copy, also if it is read-only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch fears that one might write to it
        return torch.from_numpy(array)
