"""The arithmetic of an iteration: one implementation per device, all with the same signatures.

`protocol` has the signatures, `reference` is a plain NumPy version for tests, `cpu` is the fast
version for the CPU, and `cuda` is for NVIDIA GPUs.
"""

from importlib import import_module
from typing import cast

from somf.kernels.protocol import Kernels

__all__ = ["Kernels", "is_available", "kernels_for"]

MODULES = {
    "cpu": "somf.kernels.cpu.kernels",
    "cuda": "somf.kernels.cuda.kernels",
    "reference": "somf.kernels.reference",
}
"""The module with the kernels of each device."""


def kernels_for(device: str) -> Kernels:
    """Return the kernels of a device.

    Numba, torch and Triton are imported here and not earlier.

    Parameters
    ----------
    device : {"cpu", "cuda", "reference"}

    Raises
    ------
    MissingLibraryError
        If a library that the device needs is not installed.
    MissingDeviceError
        If the machine has no such device.
    """
    return cast(Kernels, import_module(MODULES[device]))


def is_available(device: str) -> bool:
    """Return whether the device and the libraries that it needs are present."""
    try:
        kernels_for(device)
    except (ImportError, RuntimeError):
        return False
    return True
