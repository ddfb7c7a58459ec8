"""What ranks need of each other, and the trivial case of a single one.

The algorithm is written once, for any number of ranks. What is *summed* over ranks is linear in the
samples: B, C, and counts. What all ranks *know*, such as the dictionary, is the same on all of
them, bit by bit. Every rank calls the same methods in the same order.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Protocol

from somf.distributed.row_work import NO_WORK, RowWork
from somf.kernels import Kernels
from somf.penalties import AtomBall
from somf.typing import Array, Ints, Slices

AtomUpdate = Callable[[Array, Array, Array, Slices, Array], None]
"""`Kernels.update_atoms` without its ball; B is the share of this rank, C is that of all ranks."""


AtomUpdateByFeature = Callable[[Array, Array, Array, Array, Array | None, Slices, Array], None]
"""`Kernels.update_atoms_by_feature` likewise; B, E and the ridge are the shares of this rank."""


class Communicator(Protocol):
    """Messages between ranks.

    Attributes
    ----------
    rank : int
        This process, from 0 on.
    size : int
        How many there are.
    n_beside : int
        How many ranks share the cores of this one, itself included.
    """

    rank: int
    size: int
    n_beside: int

    def sum(self, *arrays: Array, n_symmetric: int = 0) -> tuple[Array, ...]:
        """Return the sums of arrays over all ranks, the same bits on each of them.

        Numbers of `enclose` travel with them.

        Parameters
        ----------
        *arrays : arrays of any shape, on the device
            Not changed. A single process gets the arrays themselves.
        n_symmetric : int
            So many of the arrays, from the first on, are symmetric matrices of the same shape.
            Triangles of them are enough for a message.
        """
        ...

    def enclose(self, name: str, number: float) -> None:
        """Send a number with the next `sum`, which costs no message of its own."""
        ...

    def enclosed(self, name: str) -> float:
        """Return the sum of the numbers that came with the last `sum`; 0 where there were none."""
        ...

    def agree(self, name: str, wish: bool) -> bool:
        """Return whether any rank has wished something, as far as all ranks know by now.

        With several ranks that is what they knew before the last `sum`: a wish comes true one
        iteration later, and costs no message.
        """
        ...

    def any(self, flag: bool) -> bool:
        """Return whether a flag is true on any rank."""
        ...

    def total(self, *numbers: float) -> tuple[float, ...]:
        """Return the sums of numbers over all ranks."""
        ...

    def latest(self, counts: Ints) -> Ints:
        """Return the largest of the counts of all ranks, entry by entry.

        Parameters
        ----------
        counts : ndarray of int
            On the host. A single process gets the array itself.
        """
        ...

    def gather(self, array: Array) -> list[Array]:
        """Return the arrays of all ranks, which may differ in their length.

        Parameters
        ----------
        array : ndarray
            On the host.
        """
        ...

    def tell(self, fact: Any) -> list[Any]:
        """Return the facts that the ranks tell each other: anything that JSON can hold."""
        ...

    def part_of(self, rows: slice) -> slice:
        """Return the part of some rows that this rank works on, if all ranks share the work."""
        ...

    def atom_update(self, kernels: Kernels, ball: AtomBall) -> AtomUpdate:
        """Return the function that updates atoms on some rows, on all ranks together."""
        ...

    def atom_update_by_feature(self, kernels: Kernels, ball: AtomBall) -> AtomUpdateByFeature:
        """Return the function that does so where every feature has a C of its own."""
        ...

    def meanwhile(
        self, work: Callable[[Slices], None], first: Slices, n_rows: int
    ) -> AbstractContextManager[RowWork]:
        """Return a context in which work on all rows is done, at its end at the latest.

        Several ranks work while they wait for messages. A single process works at once.

        Parameters
        ----------
        work : callable
            Takes rows.
        first : tuple of slices
            The rows that are needed first.
        n_rows : int
        """
        ...

    def when_idle(self, work: Callable[[], bool]) -> AbstractContextManager[None]:
        """Return a context in which several ranks do other work while they wait for messages.

        Parameters
        ----------
        work : callable
            Does a piece of it, which takes a millisecond or two, and returns False if there was
            none left. The result must not depend on how much of it is done.
        """
        ...

    def reporting(self) -> AbstractContextManager[None]:
        """Return a context that reports an error of this rank to all others, so that they end."""
        ...


_NOTHING_LEFT = nullcontext(NO_WORK)
"""The context of a single process, which has worked already; it may be entered many times."""


class Alone:
    """A single process: what all ranks have is what it has itself."""

    rank, size, n_beside = 0, 1, 1

    def __init__(self) -> None:
        self._enclosed: dict[str, float] = {}

    def sum(
        self,
        *arrays: Array,
        n_symmetric: int = 0,  # noqa: ARG002 (part of the protocol)
    ) -> tuple[Array, ...]:
        """Return the arrays themselves."""
        return arrays

    def enclose(self, name: str, number: float) -> None:
        """Keep a number."""
        self._enclosed[name] = number

    def enclosed(self, name: str) -> float:
        """Return the number that was kept."""
        return self._enclosed.get(name, 0.0)

    def agree(self, name: str, wish: bool) -> bool:  # noqa: ARG002 (part of the protocol)
        """Return the wish."""
        return wish

    def any(self, flag: bool) -> bool:
        """Return the flag."""
        return flag

    def total(self, *numbers: float) -> tuple[float, ...]:
        """Return the numbers."""
        return numbers

    def latest(self, counts: Ints) -> Ints:
        """Return the array itself."""
        return counts

    def gather(self, array: Array) -> list[Array]:
        """Return the array itself."""
        return [array]

    def tell(self, fact: Any) -> list[Any]:
        """Return the fact."""
        return [fact]

    def part_of(self, rows: slice) -> slice:
        """Return all rows."""
        return rows

    def atom_update(self, kernels: Kernels, ball: AtomBall) -> AtomUpdate:
        """Return `Kernels.update_atoms`."""

        def update(D: Array, B: Array, C: Array, rows: Slices, budget: Array) -> None:
            kernels.update_atoms(D, B, C, rows, budget, ball)

        return update

    def atom_update_by_feature(self, kernels: Kernels, ball: AtomBall) -> AtomUpdateByFeature:
        """Return `Kernels.update_atoms_by_feature`."""
        return partial(kernels.update_atoms_by_feature, ball=ball)

    def meanwhile(
        self,
        work: Callable[[Slices], None],
        first: Slices,  # noqa: ARG002 (part of the protocol)
        n_rows: int,
    ) -> AbstractContextManager[RowWork]:
        """Work on all rows at once."""
        work((slice(0, n_rows),))
        return _NOTHING_LEFT

    def when_idle(
        self,
        work: Callable[[], bool],  # noqa: ARG002 (part of the protocol)
    ) -> AbstractContextManager[None]:
        """Return a context that does nothing: a single process waits for no messages."""
        return nullcontext()

    def reporting(self) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()


@contextmanager
def together(communicator: Communicator) -> Iterator[None]:
    """Raise an OSError on all ranks if one of them raises it inside this context.

    Files may be lost to one rank only, by a full disk. The fit can go on, if all ranks know.
    """
    error: OSError | None = None
    try:
        yield
    except OSError as caught:
        error = caught
    words = communicator.tell(None if error is None else str(error))
    if error is not None:
        raise error
    for rank, text in enumerate(words):
        if text is not None:
            raise OSError(f"rank {rank}: {text}")


ALONE = Alone()
"""The communicator of a fit in a single process."""
