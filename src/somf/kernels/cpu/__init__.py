"""The kernels on the CPU, with Numba and BLAS."""
