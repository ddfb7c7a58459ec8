"""Tables of `benchmarks.distributed` on a busier machine, with the ceiling of the efficiency."""

from benchmarks.tables.distributed import ceiling

__all__ = ["ceiling"]
