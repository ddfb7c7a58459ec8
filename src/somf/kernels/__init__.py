"""The heavy arithmetic of an iteration, once per device, with one set of signatures.

`protocol` has the signatures, `reference` the obvious NumPy version, which is the oracle of the
tests, `cpu` the fast one, and `cuda` the one for GPUs.
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
"""The module that has the kernels of a device."""


def kernels_for(device: str) -> Kernels:
    """Return the kernels of a device; what they need is imported only here."""
    return cast(Kernels, import_module(MODULES[device]))


def is_available(device: str) -> bool:
    """Return whether all that a device needs is there."""
    try:
        kernels_for(device)
    except (ImportError, RuntimeError):
        return False
    return True
