"""How many threads the kernels may use."""

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def threads(n_threads: int | None) -> Iterator[None]:
    """Limit BLAS and Numba to a number of threads; None leaves them as they are."""
    if n_threads is None:
        yield
        return
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(min(n_threads, numba.config.NUMBA_NUM_THREADS))
    try:
        with threadpool_limits(n_threads, user_api="blas"):
            yield
    finally:
        numba.set_num_threads(before)
