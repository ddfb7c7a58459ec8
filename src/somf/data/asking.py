"""Minibatches that the system reads ahead: through its page cache, or past it.

What goes through the page cache is there for the next epoch, if there is memory for all of it; but
to bring it there takes the system more of the cores that compute than to have the disk write rows
to where they are needed. So rows that are in the page cache come from there, and others go past it
for as long as the disk keeps up. When those who compute have to wait for it, the disk is what is
scarce, not the cores: from then on rows go through the page cache. So they do in a second epoch;
if a third one finds that they have not stayed there, they go past it again.

Which way they come makes no difference to what is learned from them.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from time import perf_counter

import numpy as np

from somf.data import aio
from somf.data.source import Fetched, Source
from somf.typing import Ints, Rows

BLOCK = 4096
"""Bytes on whose multiples reads past the page cache begin and end, in the file and in memory."""

LEAST_AHEAD = 2
"""Minibatches that are on their way past the page cache, at least."""

MOST_OPEN = 128
"""Files that are kept open from one minibatch to the next."""

LEAST_BYTES = 2**28
"""What is less than this goes through the page cache: there is memory for it."""

MOST_BYTES = 2**29
"""Memory that may be taken to go past it."""

N_PROBED = 32
"""Rows that are looked for in the page cache before an epoch."""

FIRST_SECONDS, LATE = 1.0, 0.25
"""When, and from what share of the time spent waiting on, the disk is what is scarce."""

TURN = 0.5
"""Seconds after which somebody who waits looks up, in case of a signal."""


class Asking:
    """Lets the system read ahead, by the way that suits where the rows are.

    Parameters
    ----------
    source : Source
        One that is read by the system.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._room: Room | None = None  # kept from one epoch to the next
        self._n_missed = 0

    @contextmanager
    def ahead(self, batches: Sequence[Ints], n_ahead: int) -> Iterator[Iterator[Fetched]]:
        """Give an iterator over minibatches that have been asked for some minibatches before.

        Parameters
        ----------
        batches : sequence of ndarray of int
            The samples of every minibatch.
        n_ahead : int
        """
        room, self._room = self._room, None  # for one stream at a time
        way = self._way(batches, n_ahead, room)
        try:
            yield _ask_ahead(way)
        finally:
            way.close()
        self._room = way.room or room

    def _way(self, batches: Sequence[Ints], n_ahead: int, room: "Room | None") -> "ThroughCache":
        """Return the way past the page cache if there is one, and rows are not in the page cache.

        Whoever comes a second time may come more often: then rows are to be kept. If they are
        missing once more, there is no memory for them.
        """
        with suppress(Exception):  # whoever reads the rows will say what is wrong
            if _can_go_past(self.source, batches) and not _is_in_cache(self.source, batches):
                self._n_missed += 1
                if self._n_missed != 2:
                    return PastCache(self.source, batches, n_ahead, room)
        return ThroughCache(self.source, batches, n_ahead)


def _ask_ahead(way: "ThroughCache") -> Iterator[Fetched]:
    """Yield minibatches; whoever takes a part of one asks for as much of a later one.

    To ask takes the system a while. In a thread of its own that would hold up those that compute,
    one at a time; so they share it.
    """
    for number, ids in enumerate(way.batches[: way.n_ahead]):
        way.ask(number, slice(0, len(ids)))
    for number in range(len(way.batches)):
        yield partial(_take_and_ask, way, way.take(number), number + way.n_ahead)


def _take_and_ask(
    way: "ThroughCache", fetched: Fetched, later: int, part: slice
) -> tuple[Rows, Ints]:
    if later < len(way.batches):
        way.ask(later, part)
    return fetched(part)


class ThroughCache:
    """Asks the system to read minibatches into its page cache.

    Parameters
    ----------
    source : Source
    batches : sequence of ndarray of int
    n_ahead : int
        How many minibatches are on their way while one is taken.
    """

    room: "Room | None" = None

    def __init__(self, source: Source, batches: Sequence[Ints], n_ahead: int) -> None:
        self.source, self.batches, self.n_ahead = source, batches, n_ahead

    def ask(self, number: int, part: slice) -> None:
        """Let the system begin to read a part of a minibatch."""
        self.source.will_need(self.batches[number][part])

    def take(self, number: int) -> Fetched:
        """Return a function that gives parts of a minibatch."""
        return self.source.fetch(self.batches[number])

    def close(self) -> None:
        """Leave nothing under way."""


class PastCache(ThroughCache):
    """Lets the disk write the rows of minibatches to memory that is used again and again.

    What cannot be had like this, for whatever reason, comes through the page cache: there errors
    are named.

    Parameters
    ----------
    source : Source
        One that can locate its rows.
    batches : sequence of ndarray of int
    n_ahead : int
    room : Room, optional

    Raises
    ------
    OSError
        If the system does not allow it.
    """

    def __init__(
        self, source: Source, batches: Sequence[Ints], n_ahead: int, room: "Room | None"
    ) -> None:
        # To use memory for the first time takes long, and the disk gets all of a minibatch at once.
        super().__init__(source, batches, max(LEAST_AHEAD, n_ahead // 3))
        self._row_bytes = source.shape[1] * source.dtype.itemsize
        self._slot_bytes = (self._row_bytes // BLOCK + 2) * BLOCK  # wherever in a block rows begin
        self._batch_slots = max(map(len, batches))
        n_slots = (self.n_ahead + 1) * self._batch_slots
        self._batch_in = np.full(self.n_ahead + 1, -1)
        self._is_coming, self._is_there = np.zeros((2, n_slots), dtype=bool)
        self._n_needed, self._starts = np.zeros((2, n_slots), dtype=np.int64)
        self._files: dict[str, int] = {}
        self._lock = Lock()  # of those who wait
        self._begin, self._n_seconds_waited, self._is_late = perf_counter(), 0.0, False
        if room is None or room.n_slots < n_slots or room.slot_bytes != self._slot_bytes:
            room = Room(n_slots, self._slot_bytes)
        self.room: Room = room
        entries = room.memory.view(source.dtype)
        self._rows = np.lib.stride_tricks.sliding_window_view(entries, source.shape[1])

    def ask(self, number: int, part: slice) -> None:
        """Begin to read a minibatch, all of it at once: that is one call of the system."""
        if self._is_late:
            super().ask(number, part)
        elif part.start == 0:
            begin = perf_counter()
            self._begin_to_read(number)
            self._waited(perf_counter() - begin)  # for room in the queue of the disk

    def _begin_to_read(self, number: int) -> None:
        whole = self._slots(number, slice(0, len(self.batches[number])))
        self._is_there[whole] = False
        self._batch_in[number % len(self._batch_in)] = number
        try:
            places = self.source.locate(self.batches[number])
            files = np.array([self._file(path) for path, _ in places or ()])
        except Exception:
            return  # whoever reads the rows will name what is wrong
        if places is None:
            return
        offsets = np.array([offset for _, offset in places])
        skipped = offsets % BLOCK
        if (skipped % self.source.dtype.itemsize).any():
            return  # such rows are no array
        slots, needed = np.arange(whole.start, whole.stop), skipped + self._row_bytes
        self._n_needed[whole] = needed
        self._starts[whole] = (slots * self._slot_bytes + skipped) // self.source.dtype.itemsize
        self._is_coming[whole] = True
        n_begun = self.room.reads.begin(
            slots,
            files,
            offsets - skipped,
            self.room.address + slots * self._slot_bytes,
            -(-needed // BLOCK) * BLOCK,
        )
        self._is_coming[whole.start + n_begun : whole.stop] = False
        self._close_files(MOST_OPEN)

    def take(self, number: int) -> Fetched:
        """Return a function that gives parts of a minibatch, as soon as they are there."""
        through_cache = super().take(number)
        if self._batch_in[number % len(self._batch_in)] != number:
            return through_cache

        def fetched(part: slice) -> tuple[Rows, Ints]:
            slots = self._slots(number, part)
            self._wait_for(slots)
            if not self._is_there[slots].all():
                return through_cache(part)
            return self._rows, self._starts[slots]

        return fetched

    def _wait_for(self, slots: slice) -> None:
        if not self._is_coming[slots].any():
            return
        with self._lock:
            begin = perf_counter()
            while self._is_coming[slots].any():
                done, n_read = self.room.reads.finished(TURN)
                self._is_there[done] = n_read >= self._n_needed[done]
                self._is_coming[done] = False
            self._waited(perf_counter() - begin)

    def _waited(self, seconds: float) -> None:
        self._n_seconds_waited += seconds
        elapsed = perf_counter() - self._begin
        self._is_late |= elapsed > FIRST_SECONDS and self._n_seconds_waited > LATE * elapsed

    def _slots(self, number: int, part: slice) -> slice:
        first = number % len(self._batch_in) * self._batch_slots
        return slice(first + part.start, first + part.stop)

    def _file(self, path: str) -> int:
        """Return a file that is open for reading past the page cache."""
        if path not in self._files:
            self._files[path] = os.open(path, os.O_RDONLY | os.O_DIRECT)
        return self._files[path]

    def _close_files(self, most: int) -> None:
        """Close those that have been open for the longest time."""
        for path in list(self._files)[: max(0, len(self._files) - most)]:
            os.close(self._files.pop(path))

    def close(self) -> None:
        """Wait for what is under way, so that there is room for other things; close all files."""
        self._wait_for(slice(0, len(self._is_coming)))
        self._close_files(0)


class Room:
    """Memory for rows, and the reads that fill it.

    Parameters
    ----------
    n_slots : int
        Number of rows.
    slot_bytes : int
        Of each, a multiple of `BLOCK`.
    """

    def __init__(self, n_slots: int, slot_bytes: int) -> None:
        self.n_slots, self.slot_bytes = n_slots, slot_bytes
        self.reads = aio.Reads(n_slots)
        size = n_slots * slot_bytes
        memory = np.empty(size + BLOCK, dtype=np.uint8)
        skipped = -memory.ctypes.data % BLOCK
        self.memory = memory[skipped : skipped + size]
        self.address = int(self.memory.ctypes.data)


def _can_go_past(source: Source, batches: Sequence[Ints]) -> bool:
    """Return whether rows are large, and there is memory for minibatches, but maybe not for all."""
    row = source.shape[1] * source.dtype.itemsize
    batch, total = (how(map(len, batches)) * row for how in (max, sum))
    is_worth_it = source.has_large_rows and total >= LEAST_BYTES
    return aio.IS_AVAILABLE and is_worth_it and (LEAST_AHEAD + 1) * batch <= MOST_BYTES


def _is_in_cache(source: Source, batches: Sequence[Ints]) -> bool:
    """Return whether most of some samples begin in the page cache, or none can be looked for."""
    shares = np.arange(N_PROBED) / N_PROBED
    chosen = [batches[int(share * len(batches))] for share in shares]
    ids = np.array([b[int(share * len(b))] for share, b in zip(shares, chosen, strict=True)])
    places = source.locate(ids)
    return places is None or sum(_is_cached(*place) for place in places) > len(places) / 2


def _is_cached(path: str, offset: int) -> bool:
    file = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # not to bring in what comes after it
        return os.preadv(file, [bytearray(1)], offset, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    finally:
        os.close(file)
