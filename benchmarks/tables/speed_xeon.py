"""What is said of `benchmarks.speed` on another machine."""

from benchmarks.tables.speed import floors, machine_line, peers

__all__ = ["floors", "machine_line", "peers"]
