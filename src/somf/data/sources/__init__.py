"""Sources of rows: arrays, sparse matrices, sliceable objects, stacks of sources."""
