"""Tables of `benchmarks.speed` on another machine."""

from benchmarks.tables.speed import floors, peers, setting

__all__ = ["floors", "peers", "setting"]
