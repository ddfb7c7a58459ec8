"""Sources that tests watch and disturb."""

import threading

from somf.data import Source


class WatchedSource(Source):
    """An array as a source that counts its reads.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    before_read : callable, optional
        Called before each read with its number, which starts at 1.
    is_in_memory : bool

    Attributes
    ----------
    n_reads, n_rows : int
        How often was read, and how many rows.
    threads : set of str
        The names of the threads that have read.
    """

    def __init__(self, X, before_read=None, is_in_memory=False):
        self.X, self.shape, self.dtype = X, X.shape, X.dtype
        self.before_read, self.is_in_memory = before_read, is_in_memory
        self.n_reads, self.n_rows, self.threads = 0, 0, set()

    def rows(self, ids):
        self.n_reads, self.n_rows = self.n_reads + 1, self.n_rows + len(ids)
        self.threads.add(threading.current_thread().name)
        if self.before_read is not None:
            self.before_read(self.n_reads)
        return self.X[ids]


def failing_at(n, error):
    """Return what raises an error before the n-th read; None is never."""

    def before_read(number):
        if number == n:
            raise error

    return before_read
