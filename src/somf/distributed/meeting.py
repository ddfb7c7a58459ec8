"""Words in shared memory, by which ranks wait for each other."""

from somf.kernels.cpu.jit import jit
from somf.kernels.cpu.words import BYTES, load, store
from somf.typing import Ints


@jit
def set_number(numbers: Ints, rank: int, number: int) -> None:
    """Let the number of a rank be seen by others, after all that it has written before.

    Parameters
    ----------
    numbers : ndarray of int64 of shape (size, n)
        Each rank has a row, of which only the first word counts.
    rank, number : int
    """
    store(numbers.ctypes.data + BYTES * numbers.shape[1] * rank, number)


@jit
def have_reached(numbers: Ints, number: int) -> bool:
    """Return whether the numbers of all ranks are at least so high.

    What these ranks have written before can be read then.
    """
    for rank in range(len(numbers)):
        if load(numbers.ctypes.data + BYTES * numbers.shape[1] * rank) < number:
            return False
    return True
