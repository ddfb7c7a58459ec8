"""Tables of the overhead of an iteration on the machine with sixteen cores."""

from benchmarks.tables.overhead import iterations

__all__ = ["iterations"]
