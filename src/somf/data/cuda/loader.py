"""Minibatches in the memory of a GPU."""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from somf.data.checks import check_finite, check_view
from somf.data.cuda.patches import cut_patches
from somf.data.cuda.pinned import PinnedArray, Staging, can_be_sent, pinned, tensor_of
from somf.data.cuda.rows import arrange_rows
from somf.data.images.patches import ImagePatches
from somf.data.loader import Loader, reader_of
from somf.data.readahead.background import read_ahead
from somf.data.source import PieceReader, Source
from somf.data.sources.arrays import ArraySource
from somf.kernels.cuda import device as cuda
from somf.typing import Array, Ints, Matrix

BATCHES_AHEAD = 2
"""Minibatches of a pinned array that the device reads while it computes with another one."""

READING_THREADS = 2
"""While one thread waits for the device to check its minibatch, the other reads the next one."""


class PendingBatch(NamedTuple):
    """A minibatch that the device is reading.

    Attributes
    ----------
    ids : ndarray of shape (b,)
    rows : tensor of shape (b, p)
    n_bad : tensor
        How many of its entries are not finite.
    arrival : torch.cuda.Event
        When it has been read.
    """

    ids: Ints
    rows: Any
    n_bad: Any
    arrival: Any


class DeviceLoader(Loader):
    """Sends rows as they are stored; converts, permutes and checks them on the device.

    Background threads do this, each on a CUDA stream of its own, while the device computes. The
    image of `ImagePatches` is sent to the device once, and patches are cut out there.

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
        self._places = None if permutation is None else cuda.to_device(self._column)
        self._reading = threading.local()
        on_gpu = cuda.DEVICE.type == "cuda"
        self._computing = torch.cuda.current_stream() if on_gpu else None
        self._image: DeviceImage | None = None
        # Patches of several images differ in their strides: the host cuts them.
        if (
            isinstance(source, ImagePatches)
            and len(source.images) == 1
            and cuda.has_room(source.images[0].nbytes)
        ):
            self._image = DeviceImage(source, permutation, self._floating)
            self._warn_if_negative(self._image.has_negatives)
        self._pinned: PinnedArray | None = None
        if isinstance(source, ArraySource) and source.is_in_memory:
            self._pinned = pinned(source.X)
        if self._computing is not None:
            self._computing.synchronize()  # other streams are going to read self._places

    def nothing(self) -> Any:
        """See `Loader.nothing`."""
        return cuda.to_device(super().nothing())

    def load(self, ids: Ints) -> Any:
        """Return samples as a minibatch on the device."""
        if self._image is None:
            return super().load(ids)
        X = self._image.patches(ids)
        if self._image.is_finite:
            return X
        return self._checked(X, bool(torch.isfinite(X).all()), ids)

    @contextmanager
    def stream(self, batches: Sequence[Ints]) -> Iterator[Iterator[Matrix]]:
        """See `Loader.stream`; patches that are cut out on the device need no reading ahead."""
        is_interpreted = self._computing is None  # Triton's interpreter does not run in threads
        if self._image is not None or is_interpreted:
            yield map(self.load, batches)
            return
        if self._pinned is not None:
            yield self._read_by_device(self._pinned, batches)
            return
        # The buffer of chunks must be filled in the order of minibatches, by one thread.
        n_threads = 1 if self._buffers_chunks else READING_THREADS
        n_ahead = self._n_ahead(batches)
        with self._background_view(batches, n_ahead) as view:

            def load(ids: Ints) -> Any:
                return self._prepare(ids, reader_of(view(ids)))

            with read_ahead(load, batches, n_ahead, n_threads) as minibatches:
                yield minibatches

    def _read_by_device(self, source: PinnedArray, batches: Sequence[Ints]) -> Iterator[Any]:
        """Yield minibatches of a pinned array; the device reads some of them ahead.

        The host has so little to do that a background thread would cost more than it saves.
        """
        coming: deque[PendingBatch] = deque()
        stream = torch.cuda.Stream()
        try:
            for ids in batches:
                with torch.cuda.stream(stream):
                    arranged = self._arranged(source.X, ids)
                    coming.append(PendingBatch(ids, *arranged, stream.record_event()))
                    del arranged  # its memory is free once the minibatch is used
                if len(coming) > BATCHES_AHEAD:
                    yield self._arrived(coming.popleft())
            while coming:
                yield self._arrived(coming.popleft())
        finally:
            stream.synchronize()  # the device may still write minibatches that are not used

    def _arrived(self, batch: PendingBatch) -> Any:
        batch.arrival.synchronize()
        return self._checked(batch.rows, int(batch.n_bad) == 0, batch.ids)

    def _prepare(self, ids: Ints, read: PieceReader, by_readers: bool = False) -> Any:  # noqa: ARG002 (the device converts)
        X, positions = read(slice(0, len(ids)))
        if not self.source.is_sparse:
            check_view(X, positions, (len(ids), self.source.shape[1]))
        with self._on_own_stream():
            if not self.source.is_sparse:
                rows, bad = self._arranged(X, positions)
                if self._computing is not None:
                    torch.cuda.current_stream().synchronize()
                batch = self._checked(rows, int(bad) == 0, ids)
            else:
                batch = cuda.to_device(self._sparse(ids, X, positions))
                self._keep_until_used(batch)
        return batch

    @contextmanager
    def _on_own_stream(self) -> Iterator[None]:
        """Use the CUDA stream of this thread, beside the one that computes, and wait for it."""
        if self._computing is None:
            yield
            return
        if not hasattr(self._reading, "stream"):
            self._reading.stream = torch.cuda.Stream()
        with torch.cuda.stream(self._reading.stream):
            yield
        self._reading.stream.synchronize()

    def _arranged(self, X: Array, positions: Ints) -> tuple[Any, Any]:
        """Pick rows, permute columns, convert and check, all in one pass."""
        if not can_be_sent(X.dtype):
            X, positions = X[positions].astype(self.dtype), np.arange(len(positions))
        if self._pinned is not None:
            source, chosen = self._pinned.tensor, cuda.places(positions)
        else:
            source = self._staging().send(X, positions)
            chosen = torch.arange(len(positions), device=cuda.DEVICE)
        rows = torch.empty((len(positions), X.shape[1]), dtype=self._floating, device=cuda.DEVICE)
        self._keep_until_used(chosen, rows)
        return rows, arrange_rows(source, chosen, self._places, rows, X.dtype == np.uint16)

    def _keep_until_used(self, *arrays: Any) -> None:
        """Keep the memory of arrays until the device has computed with them."""
        if self._computing is not None:
            for array in arrays:
                array.record_stream(self._computing)

    def _staging(self) -> Staging:
        """Return the pinned memory of this thread."""
        if not hasattr(self._reading, "staging"):
            self._reading.staging = Staging()
        return cast(Staging, self._reading.staging)

    def _checked(self, X: Any, is_finite: bool, ids: Ints) -> Any:
        """Return a minibatch; raise an error for NaN or infinity, warn of negative entries."""
        if not is_finite:
            rows = X.cpu().numpy()
            check_finite(rows, rows, ids, self.name, self._name_of)
        if self.non_negative:
            self._warn_if_negative(bool((X < 0).any()))
        return X


class DeviceImage:
    """An image on the device, in its own type, and the patches to cut out of it.

    Parameters
    ----------
    source : ImagePatches
    order : ndarray of shape (p,), optional
        The feature that goes to each column.
    dtype : torch.dtype
        Of the patches.

    Attributes
    ----------
    is_finite : bool
        Whether all pixels are finite.
    has_negatives : bool
        Whether patches have negative entries.
    """

    def __init__(self, source: ImagePatches, order: Ints | None, dtype: torch.dtype) -> None:
        self.center, self.scale, self.dtype = source.center, source.scale, dtype
        image = source.images[0]
        image = image.astype(image.dtype.newbyteorder("="), copy=False)
        if image.dtype.kind in "ub":  # torch has few operations for them
            image = image.astype(np.int32 if image.itemsize <= 2 else np.float64)
        self.pixels = tensor_of(np.ascontiguousarray(image)).to(cuda.DEVICE).view(-1)
        n_axes = source.positions.shape[1]
        strides = np.cumprod([1, *image.shape[:0:-1]])[::-1]  # of the image, in entries
        self.corners = cuda.to_device(source.positions @ strides[:n_axes])
        steps = (n * np.arange(size) for n, size in zip(strides, source.patch_shape, strict=True))
        inside = reduce(np.add, np.ix_(*steps))
        self.offsets = cuda.to_device(inside.ravel()[slice(None) if order is None else order])
        self.is_finite = bool(torch.isfinite(self.pixels).all())
        self.has_negatives = self.center or bool((self.pixels < 0).any())

    def patches(self, ids: Ints) -> Any:
        """Return patches as rows, normalised like those of `images.cutting.cut_patches`.

        Parameters
        ----------
        ids : ndarray of shape (b,)

        Returns
        -------
        X : tensor of shape (b, p)
        """
        corners = self.corners.index_select(0, cuda.places(ids))
        X = torch.empty((len(ids), len(self.offsets)), dtype=self.dtype, device=cuda.DEVICE)
        cut_patches(self.pixels, corners, self.offsets, self.center, self.scale, X)
        return X
