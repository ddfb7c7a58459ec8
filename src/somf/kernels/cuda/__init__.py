"""The kernels on an NVIDIA GPU, with torch and Triton."""
