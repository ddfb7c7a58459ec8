"""Tables of `benchmarks.threads` on another machine, `benchmarks/results/threads_amd.json`."""

from benchmarks.tables.threads import iterations

__all__ = ["iterations"]
