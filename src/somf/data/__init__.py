"""Where samples come from: sources of rows, and the loader that turns rows into minibatches."""

from somf.data.loader import Loader, epoch_order
from somf.data.patches import ImagePatches
from somf.data.source import ArraySource, CsrSource, Source, as_source

__all__ = [
    "ArraySource",
    "CsrSource",
    "ImagePatches",
    "Loader",
    "Source",
    "as_source",
    "epoch_order",
]
