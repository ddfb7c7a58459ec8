"""Messages between ranks by torch.distributed: gloo between CPUs, NCCL between GPUs.

Ranks that are all on one machine have met by torch, and go on through `SharedMemory`.

All messages are made of one operation, all-to-all: every rank sends a part to every other rank,
without detours. So a rank that dies breaks the next message of all others at once, sums are in the
order of the ranks, and there is one place that counts bytes, waits, and notices failures.
"""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic, sleep
from typing import Any

import numpy as np

from somf.distributed.communicator import AtomUpdate, AtomUpdateByFeature
from somf.distributed.dealing import edges_of
from somf.distributed.failures import Witness
from somf.distributed.packing import fill, room_for, unpacked
from somf.distributed.row_work import NO_WORK, RowWork
from somf.distributed.shared_memory import SharedMemory
from somf.distributed.spread import SpreadUpdate, UpdateByFeature
from somf.errors import RankError
from somf.kernels import Kernels
from somf.kernels.pairs import places, upper
from somf.penalties import AtomBall
from somf.typing import Array, Ints, Slices

logger = logging.getLogger("somf")

POLL = timedelta(seconds=0.25)
"""How long to wait for a message before looking whether another rank has failed."""

SPIN_SECONDS = 0.005
"""How long a rank looks again and again for what others write, if it has nothing else to do."""

PAUSE = 0.0005
"""Seconds between two looks after that."""

MOST_SHARED_BYTES = 2**27
"""Bytes of all ranks together up to which facts and sums go through shared memory, which does not
shrink. Longer ones are rare. Rows of every step go through it however long they are."""

DIRECT_BYTES = 200_000
"""Numbers of which a rank can send all others a copy in so many bytes are summed in one message.

Otherwise every rank sums a part and sends it to all, which are two messages. A network of 10 Gb/s
carries as many bytes in 0.2 ms, about the time of a message between eight ranks.
"""


class ProcessGroup:
    """The ranks of a process group of torch.

    Parameters
    ----------
    torch : module
    group : torch.distributed.ProcessGroup
        On gloo; it carries the arrays that are in host memory.
    device_group : torch.distributed.ProcessGroup or None
        On NCCL, for tensors on a GPU. Without it they travel through host memory.
    witness : Witness
        Knows which rank has failed, and why.
    timeout : float
        Seconds after which a rank that does not answer counts as failed.

    Attributes
    ----------
    rank, size : int
    n_bytes, n_messages : int
        What this rank has sent to others so far, and in how many operations.
    n_beside : int
        How many ranks share the cores of this one, itself included.
    is_broken : bool
        Whether a rank has failed, so that no message can be sent any more.
    shared_memory : SharedMemory or None
        Of all ranks, if they are on one machine.
    row_work : RowWork
        What this rank does while it waits for messages.
    idle_work : callable
        What it does then if no rows are left; see `Communicator.when_idle`.
    """

    def __init__(
        self, torch: Any, group: Any, device_group: Any, witness: Witness, timeout: float
    ) -> None:
        self.torch, self.group, self.device_group = torch, group, device_group
        self.witness, self.timeout = witness, timeout
        self.rank, self.size = witness.rank, witness.size
        self.n_bytes = self.n_messages = 0
        self.n_beside, self.is_broken = 1, False
        self.shared_memory: SharedMemory | None = None
        self._notes: dict[str, float] = {}
        self._enclosed: dict[str, float] = {}
        self.row_work = NO_WORK
        self.idle_work: Callable[[], bool] = NO_WORK.advance

    # Sums

    def sum(self, *arrays: Array, n_symmetric: int = 0) -> tuple[Array, ...]:
        """See `Communicator.sum`."""
        names, values = sorted(self._notes), [self._notes[name] for name in sorted(self._notes)]
        self._notes, notes = {}, np.array(values, dtype=np.float64)
        if self._stays_on_device(arrays[0]):
            totals = tuple(self._sum_on_device(array) for array in arrays)
            summed = self._sum([notes])[0] if names else notes
        else:
            on_host = [_to_host(array) for array in arrays]
            triangles = [array[upper(len(array))] for array in on_host[:n_symmetric]]
            *found, summed = self._sum([*triangles, *on_host[n_symmetric:], notes])
            for n in range(n_symmetric):
                found[n] = found[n][places(len(on_host[n]))]
            totals = tuple(_like(total, array) for total, array in zip(found, arrays, strict=True))
        if names:
            self._enclosed = dict(zip(names, summed.tolist(), strict=True))
        return totals

    def add_up(self, array: Array) -> Array:
        """Return the sum of an array over all ranks, with no numbers enclosed."""
        if self._stays_on_device(array):
            return self._sum_on_device(array)  # type: ignore[no-any-return] # a tensor
        return _like(self._sum([_to_host(array)])[0], array)  # type: ignore[no-any-return]

    def add_up_symmetric(self, array: Array) -> Array:
        """Do the same for a symmetric matrix, of which a triangle is sent, or for a vector."""
        if self._stays_on_device(array) or array.ndim == 1:
            return self.add_up(array)
        m = len(array)
        triangle = self._sum([_to_host(array)[upper(m)]])[0]
        return _like(triangle[places(m)], array)  # type: ignore[no-any-return]

    def _sum(self, arrays: list[Array]) -> list[Array]:
        """Sum arrays of the host in one message, or in two if they are large.

        A small array is sent to all as a whole. Of a large one every rank gets a part, which it
        adds up and sends to all.
        """
        n_bytes = sum(array.nbytes for array in arrays)
        n_parts = 1 if n_bytes * (self.size - 1) <= DIRECT_BYTES else self.size
        lengths = [-(-array.size // n_parts) for array in arrays]
        send = room_for(self.size, arrays, lengths)
        for array, parts in zip(arrays, unpacked(send, arrays, lengths), strict=True):
            fill(parts, array.reshape(-1))
        received = self.exchange(send)
        sums = room_for(1, arrays, lengths)
        for parts, total in zip(
            unpacked(received, arrays, lengths), unpacked(sums, arrays, lengths), strict=True
        ):
            np.add.reduce(parts, axis=0, out=total[0])
        if n_parts > 1:
            sums = self._send_to_all(sums[0])
        found = zip(arrays, unpacked(sums, arrays, lengths), strict=True)
        return [parts.reshape(-1)[: array.size].reshape(array.shape) for array, parts in found]

    def _sum_on_device(self, array: Any) -> Any:
        """Sum a tensor on the GPU: every rank adds up a part, and sends it to all."""
        m = -(-array.numel() // self.size)
        send = array.new_zeros(self.size * m)
        send[: array.numel()] = array.reshape(-1)
        own = self.exchange(send.view(self.size, m)).sum(dim=0)
        everything = self.exchange(own.expand(self.size, m).contiguous())
        return everything.view(-1)[: array.numel()].view(array.shape)

    def _stays_on_device(self, array: Any) -> bool:
        return self.device_group is not None and not isinstance(array, np.ndarray)

    def enclose(self, name: str, number: float) -> None:
        """See `Communicator.enclose`."""
        self._notes[name] = number

    def enclosed(self, name: str) -> float:
        """See `Communicator.enclosed`."""
        return self._enclosed.get(name, 0.0)

    def agree(self, name: str, wish: bool) -> bool:
        """See `Communicator.agree`. Every rank calls it in every iteration, after the `sum`."""
        self.enclose(name, float(wish))
        return self.enclosed(name) > 0

    def forget_wishes(self) -> None:
        """Forget what was enclosed and never sent, at the end of an earlier fit."""
        self._notes, self._enclosed = {}, {}

    def any(self, flag: bool) -> bool:
        """See `Communicator.any`."""
        return self.total(float(flag))[0] > 0

    def total(self, *numbers: float) -> tuple[float, ...]:
        """See `Communicator.total`."""
        (totals,) = self._sum([np.array(numbers, dtype=np.float64)])
        return tuple(totals.tolist())

    def latest(self, counts: Ints) -> Ints:
        """See `Communicator.latest`."""
        largest: Ints = np.maximum.reduce(self.gather(counts))
        return largest

    # Facts

    def gather(self, array: Array) -> list[Array]:
        """See `Communicator.gather`."""
        counts = self._send_to_all(np.array([len(array)])).reshape(-1).tolist()
        padded = np.zeros((max(counts), *array.shape[1:]), array.dtype)
        padded[: len(array)] = array
        rows = self._send_to_all(padded)
        return [part[:count] for part, count in zip(rows, counts, strict=True)]

    def tell(self, fact: Any) -> list[Any]:
        """See `Communicator.tell`."""
        text = np.frombuffer(json.dumps(fact).encode(), dtype=np.uint8)
        return [json.loads(received.tobytes()) for received in self.gather(text)]

    # The dictionary

    def part_of(self, rows: slice) -> slice:
        """See `Communicator.part_of`."""
        edges = edges_of(rows.stop - rows.start, self.size)
        first, last = (rows.start + int(edge) for edge in edges[self.rank : self.rank + 2])
        return slice(first, last)

    def atom_update(self, kernels: Kernels, ball: AtomBall) -> AtomUpdate:
        """See `Communicator.atom_update`."""
        return SpreadUpdate(self, kernels, ball)

    def atom_update_by_feature(self, kernels: Kernels, ball: AtomBall) -> AtomUpdateByFeature:
        """See `Communicator.atom_update_by_feature`."""
        return UpdateByFeature(self, kernels, ball)

    @contextmanager
    def meanwhile(
        self, work: Callable[[Slices], None], first: Slices, n_rows: int
    ) -> Iterator[RowWork]:
        """See `Communicator.meanwhile`."""
        self.row_work = RowWork(work, first, n_rows)
        try:
            yield self.row_work
            self.row_work.finish()
        finally:
            self.row_work = NO_WORK

    @contextmanager
    def when_idle(self, work: Callable[[], bool]) -> Iterator[None]:
        """See `Communicator.when_idle`."""
        self.idle_work = work
        try:
            yield
        finally:
            self.idle_work = NO_WORK.advance

    def carry(self, send: Any, received: Any) -> Any:
        """Exchange parts that are on the device; see `exchange`.

        Parameters
        ----------
        send : array of shape (size, ...), on the device
        received : array of the same shape, overwritten
        """
        if isinstance(send, np.ndarray) or self._stays_on_device(send):
            return self.exchange(send, received)
        return _like(self.exchange(_to_host(send)), send)

    # Messages

    def check_whole(self) -> None:
        """Raise RankError if a rank has failed before."""
        if self.is_broken:
            raise self.witness.verdict("a rank has failed before")

    def count_message(self, n_bytes: int) -> None:
        """Count a message with so many bytes for others."""
        self.check_whole()
        self.n_messages += 1
        self.n_bytes += n_bytes

    def _is_shared(self, n_bytes: int) -> bool:
        """Return whether so many bytes of each rank go through shared memory, which then stays."""
        return n_bytes * self.size <= MOST_SHARED_BYTES

    def close(self) -> None:
        """Leave shared memory."""
        if self.shared_memory is not None:
            self.shared_memory.close()
            self.shared_memory = None

    def _send_to_all(self, message: Array) -> Array:
        """Send an array to all ranks; return those of all ranks, one in each row."""
        if self.shared_memory is not None and self._is_shared(message.nbytes):
            return self.shared_memory.share(message).copy()
        messages: Array = self.exchange(np.repeat(message[None], self.size, axis=0))
        return messages

    def exchange(self, send: Any, received: Any = None) -> Any:
        """Send a part to each rank; return the parts that this rank has got from each of them.

        Parameters
        ----------
        send : ndarray or tensor of shape (size, ...)
            One part for each rank.
        received : array of the same shape and kind, optional
            Overwritten; by default a new one.

        Returns
        -------
        received : array of the same shape and kind
        """
        is_host = isinstance(send, np.ndarray)
        if is_host and self.shared_memory is not None and self._is_shared(send.nbytes):
            self.shared_memory.room_for_each(send.shape[1:], send)[:] = send
            parts = self.shared_memory.exchange()
            if received is None:
                return parts.copy()
            received[:] = parts
            return received
        self.count_message(send.nbytes // self.size * (self.size - 1))
        tensor = self.torch.from_numpy(send) if is_host else send
        if received is None:
            received = self.torch.empty_like(tensor)
        elif is_host:
            received = self.torch.from_numpy(received)
        group = self.group if is_host else self.device_group
        with self._naming_failures():
            work = self.torch.distributed.all_to_all_single(
                received, tensor, group=group, async_op=True
            )
            if not is_host:
                work.wait()  # of the stream, not of this process
        if is_host:
            self._wait_for(work)
        return received.numpy() if is_host else received

    def _wait_for(self, work: Any) -> None:
        """Wait for a message of torch."""
        with self._naming_failures():
            self._work_until(work.is_completed)
            end = monotonic() + self.timeout
            while True:
                try:
                    work.wait(POLL)
                except RuntimeError:  # the message has failed, or it has not come yet
                    if work.is_completed():
                        work.wait()
                if work.is_completed():
                    return
                self._look(end)

    def wait(self, is_over: Callable[[], bool], look: Callable[[], None]) -> None:
        """Wait for something, until it is over, or another rank has failed, or for too long.

        Parameters
        ----------
        is_over : callable
        look : callable
            Raises RuntimeError if it cannot come any more.
        """
        with self._naming_failures():
            self._work_until(is_over)
            start = monotonic()
            next_look, end = start + POLL.total_seconds(), start + self.timeout
            while not is_over():
                now = monotonic()
                sleep(0 if now < start + SPIN_SECONDS else PAUSE)
                if now > next_look:
                    try:
                        look()
                    except RuntimeError:
                        if not is_over():  # a rank may have ended after its last message
                            raise
                    self._look(end)
                    next_look = now + POLL.total_seconds()

    def _work_until(self, is_over: Callable[[], bool]) -> None:
        """Do other work until something is over, or none is left."""
        while not is_over() and (self.row_work.advance() or self.idle_work()):
            pass

    def _look(self, end: float) -> None:
        """Raise an error if another rank has reported one, or after the end of the time-out."""
        self.witness.look()
        if monotonic() > end:
            raise TimeoutError(f"no message for {self.timeout:g} seconds")

    @contextmanager
    def _naming_failures(self) -> Iterator[None]:
        """Turn an error of a message into one that names the rank that has failed."""
        try:
            yield
        except RankError:
            self.is_broken = True
            raise
        except (RuntimeError, TimeoutError) as error:
            self.is_broken = True
            raise self.witness.verdict(str(error).partition("\n")[0]) from error

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report an error of this rank to all others, whose messages then fail at once."""
        try:
            yield
        except RankError:
            raise
        except BaseException as error:
            self.is_broken = True
            self.witness.report(error)
            raise


def _to_host(array: Any) -> Array:
    return array if isinstance(array, np.ndarray) else array.contiguous().cpu().numpy()


def _like(array: Array, other: Any) -> Any:
    """Return an array of the host where another array is."""
    return array if isinstance(other, np.ndarray) else other.new_tensor(array)
