"""Minibatches that the system reads ahead: through its page cache, or past it.

What goes through the page cache is there for the next epoch, if there is memory for all of it; but
to bring it there takes the system more of the cores that compute than to have the disk write rows
to where they are needed. So an epoch whose rows are in the page cache, or most of them, takes them
from there, and another one goes past it for as long as the disk keeps up. When those who compute
have to wait for it, the disk is what is scarce, not the cores: from then on rows go through the
page cache. So they do in a second epoch; if a third one finds that they have not stayed there,
they go past it again.

Which way they come makes no difference to what is learned from them.
"""

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from threading import Lock
from time import perf_counter

import numpy as np

from somf.data import aio
from somf.data.mapping import Place
from somf.data.readahead import TURN
from somf.data.source import Fetched, Source
from somf.typing import Ints, Rows

BLOCK = 4096
"""Bytes on whose multiples reads past the page cache begin and end."""

LEAST_AHEAD = 2
"""Minibatches that are on their way past the page cache, at least."""

LEAST_BYTES = 2**28
"""What is less than this goes through the page cache: there is memory for it."""

MOST_BYTES, MOST_READS = 2**28, 2**11
"""Memory for rows on their way past it, and how many they are: the system has 2¹⁶ for everybody."""

MOST_OPEN = 64
"""Rows that are asked for at once, and files that stay open until the next of them."""

N_PROBED = 32
"""Rows that are looked for in the page cache before an epoch."""

FIRST_SECONDS, LATE = 1.0, 0.25
"""When, and from what share of the time spent waiting on, the disk is what is scarce."""


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
        way = self._way(batches, n_ahead)
        try:
            yield _ask_ahead(way)
            self._room = way.vacate()
        finally:
            way.close()

    def _way(self, batches: Sequence[Ints], n_ahead: int) -> "ThroughCache":
        """Return the way past the page cache if there is one, and rows are not in the page cache.

        Whoever comes a second time may come more often: then rows are to be kept. If they are
        missing once more, there is no memory for them.
        """
        room, self._room = self._room, None  # for one stream at a time
        with suppress(Exception):  # whoever reads the rows will say what is wrong
            if _can_go_past(self.source, batches) and not _is_in_cache(self.source, batches):
                self._n_missed += 1
                if self._n_missed != 2:
                    return PastCache(self.source, batches, n_ahead, room)
        return ThroughCache(self.source, batches, n_ahead, room)


def _ask_ahead(way: "ThroughCache") -> Iterator[Fetched]:
    """Yield minibatches; whoever takes a part of one asks for as much of a later one.

    To ask takes the system a while. In a thread of its own that would hold up those that compute,
    one at a time; so they share it.
    """
    for number in range(min(way.n_ahead, len(way.batches))):
        way.ask(number, way.whole(number))
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
    room : Room, optional
        For another epoch that needs it.
    """

    def __init__(
        self, source: Source, batches: Sequence[Ints], n_ahead: int, room: "Room | None"
    ) -> None:
        self.source, self.batches, self.n_ahead, self._room = source, batches, n_ahead, room

    def whole(self, number: int) -> slice:
        """Return all of a minibatch, as a part of it."""
        return slice(0, len(self.batches[number]))

    def ask(self, number: int, part: slice) -> None:
        """Let the system begin to read a part of a minibatch."""
        self.source.will_need(self.batches[number][part])

    def take(self, number: int) -> Fetched:
        """Return a function that gives parts of a minibatch."""
        return self.source.fetch(self.batches[number])

    def vacate(self) -> "Room | None":
        """Return a room into which nothing is going to be read any more."""
        return self._room

    def close(self) -> None:
        """Leave nothing open, whatever has happened."""


class PastCache(ThroughCache):
    """Lets the disk write the rows of minibatches to memory that is used again and again.

    Every minibatch has a slot for each of its rows: those of one that nobody needs any more when
    this one is asked for. What cannot be had like this, for whatever reason, comes through the
    page cache: there errors are named.

    Parameters
    ----------
    source : Source
        One that can locate its rows.
    batches : sequence of ndarray of int
    n_ahead : int
    room : Room, optional
        One to take over, if it is large enough.

    Raises
    ------
    OSError
        If the system does not allow it.
    """

    def __init__(
        self, source: Source, batches: Sequence[Ints], n_ahead: int, room: "Room | None"
    ) -> None:
        self._row_bytes, self._slot_bytes = _row_bytes(source), _slot_bytes(source)
        self._batch_slots = max(map(len, batches))
        # Not many minibatches: to use memory for the first time takes long, and the disk is given
        # enough to do by all rows of one.
        n_ahead = max(LEAST_AHEAD, min(n_ahead // 3, MOST_READS // self._batch_slots - 1))
        n_slots = (n_ahead + 1) * self._batch_slots
        if room is None or room.n_slots < n_slots:
            room = Room(n_slots, self._slot_bytes)
        super().__init__(source, batches, n_ahead, room)
        self._reads, self._address = room.reads, room.address
        entries = room.memory.view(source.dtype)
        self._rows = np.lib.stride_tricks.sliding_window_view(entries, source.shape[1])
        self._batch_in = np.full(n_ahead + 1, -1)
        self._is_coming, self._is_there = np.zeros((2, n_slots), dtype=bool)
        self._n_needed, self._starts = np.zeros((2, n_slots), dtype=np.int64)
        self._files: dict[str, int] = {}
        self._lock = Lock()  # of those who wait
        self._begin, self._n_seconds_waited, self._is_late = perf_counter(), 0.0, False

    def ask(self, number: int, part: slice) -> None:
        """Begin to read a minibatch, all of it for whoever takes the first part of another one.

        Many rows in one call cost the system less than a few in each of several.
        """
        if self._is_late:
            super().ask(number, part)
        elif part.start == 0:
            begin = perf_counter()
            if not self._begin_to_read(number):
                super().ask(number, self.whole(number))
            self._waited(perf_counter() - begin)  # for the disk to accept it

    def _begin_to_read(self, number: int) -> bool:
        """Return whether all rows of a minibatch are on their way."""
        slots = self._slots(number, self.whole(number))
        self._is_there[slots] = False
        self._batch_in[number % len(self._batch_in)] = number
        try:
            places = self.source.locate(self.batches[number])
            if places is None or len(places) != slots.stop - slots.start:
                return False
            runs = range(slots.start, slots.stop, MOST_OPEN)
            return all(
                self._begin_to_read_into(slot, places[slot - slots.start :][:MOST_OPEN])
                for slot in runs
            )
        except Exception:  # whoever reads the rows will say what is wrong
            self._close_files(0)  # there may have been too many
            return False

    def _begin_to_read_into(self, first: int, places: Sequence[Place]) -> bool:
        """Return whether some rows are on their way into consecutive slots."""
        offsets = np.array([place.offset for place in places])
        skipped = offsets % BLOCK
        itemsize = self.source.dtype.itemsize
        if (skipped % itemsize).any():
            return False  # such rows are no array
        files = np.array([self._file(place) for place in places])
        these, slots = slice(first, first + len(places)), first + np.arange(len(places))
        needed = skipped + self._row_bytes
        self._n_needed[these] = needed
        self._starts[these] = (slots * self._slot_bytes + skipped) // itemsize
        self._is_coming[these] = True
        n_begun = self._reads.begin(
            slots,
            files,
            offsets - skipped,
            self._address + slots * self._slot_bytes,
            -(-needed // BLOCK) * BLOCK,
        )
        self._is_coming[first + n_begun : these.stop] = False
        self._close_files(MOST_OPEN)
        return n_begun == len(places)

    def take(self, number: int) -> Fetched:
        """Return a function that gives parts of a minibatch, as soon as they are there."""
        if self._batch_in[number % len(self._batch_in)] != number:
            return super().take(number)
        fetch = cache(partial(super().take, number))

        def fetched(part: slice) -> tuple[Rows, Ints]:
            slots = self._slots(number, part)
            self._wait_for(slots)
            if self._is_there[slots].all():
                return self._rows, self._starts[slots]
            with self._lock:
                through_cache = fetch()
            return through_cache(part)

        return fetched

    def _wait_for(self, slots: slice) -> None:
        if not self._is_coming[slots].any():
            return
        with self._lock:
            begin = perf_counter()
            while self._is_coming[slots].any():
                done, n_read = self._reads.finished(TURN)
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

    def _file(self, place: Place) -> int:
        """Return a file that is open for reading past the page cache."""
        if place.path not in self._files:
            file = self._files[place.path] = os.open(place.path, os.O_RDONLY | os.O_DIRECT)
            if place.inode not in (None, os.fstat(file).st_ino):
                raise FileNotFoundError(f"there is another file in the place of {place.path!r}.")
        return self._files[place.path]

    def _close_files(self, most: int) -> None:
        """Close those that have been open for the longest time; reads that have begun go on."""
        for path in list(self._files)[: max(0, len(self._files) - most)]:
            os.close(self._files.pop(path))

    def vacate(self) -> "Room | None":
        """Wait for what is under way; return the room for another epoch."""
        self._wait_for(slice(0, len(self._is_coming)))
        return self._room

    def close(self) -> None:
        """Close all files; if somebody was interrupted, end what may still be under way."""
        if self._is_coming.any():
            self._reads.end()
        self._close_files(0)


class Room:
    """Memory for rows, and the reads that fill it.

    Parameters
    ----------
    n_slots : int
        Number of rows.
    slot_bytes : int
        Of each, a multiple of the size of a page.
    """

    def __init__(self, n_slots: int, slot_bytes: int) -> None:
        self.n_slots = n_slots
        self.reads = aio.Reads(n_slots)
        size = n_slots * slot_bytes
        memory = np.empty(size + mmap.PAGESIZE, dtype=np.uint8)  # NumPy asks for huge pages
        skipped = -memory.ctypes.data % mmap.PAGESIZE
        self.memory = memory[skipped : skipped + size]
        self.address = int(self.memory.ctypes.data)


def _row_bytes(source: Source) -> int:
    return source.shape[1] * source.dtype.itemsize


def _slot_bytes(source: Source) -> int:
    """Return the memory for a row: whole pages, wherever in a block it begins."""
    return (_row_bytes(source) // mmap.PAGESIZE + 2) * mmap.PAGESIZE


def _can_go_past(source: Source, batches: Sequence[Ints]) -> bool:
    """Return whether rows are large, and there is memory for minibatches, but maybe not for all."""
    n_slots = (LEAST_AHEAD + 1) * max(map(len, batches))
    return (
        aio.IS_AVAILABLE
        and source.has_large_rows
        and sum(map(len, batches)) * _row_bytes(source) >= LEAST_BYTES
        and n_slots <= MOST_READS
        and n_slots * _slot_bytes(source) <= MOST_BYTES
    )


def _is_in_cache(source: Source, batches: Sequence[Ints]) -> bool:
    """Return whether most of some places in rows are in the page cache, or cannot be looked at.

    To look at a page that is not there brings it there, so the next look is at others.
    """
    random = np.random.default_rng()
    some = [batches[i] for i in random.integers(len(batches), size=N_PROBED)]
    places = source.locate(np.array([random.choice(ids) for ids in some]))
    if places is None:
        return True
    within = random.integers(_row_bytes(source), size=N_PROBED).tolist()
    found = [_is_cached(p.path, p.offset + i) for p, i in zip(places, within, strict=True)]
    return sum(found) > N_PROBED / 2


def _is_cached(path: str, offset: int) -> bool:
    file = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # not to bring in what comes after it
        return os.preadv(file, [bytearray(1)], offset, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    finally:
        os.close(file)
