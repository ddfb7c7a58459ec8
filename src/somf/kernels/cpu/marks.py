"""Which atoms a minibatch uses, on the CPU."""

from somf.kernels.cpu.jit import jit
from somf.typing import Array, Ints


@jit
def mark_used(last_used: Ints, code: Array, now: int) -> None:
    """See `Kernels.mark_used`."""
    for i in range(code.shape[0]):
        for j in range(code.shape[1]):
            if code[i, j] != 0:
                last_used[j] = now
