"""Tables of `benchmarks.cnmf` on more cells, `benchmarks/results/cnmf_large.json`."""

from benchmarks.tables.cnmf import libraries, setting

__all__ = ["libraries", "setting"]
