"""Where samples come from: sources of rows, and the loader that turns rows into minibatches."""

from somf.data.chunks import epoch_order
from somf.data.loader import Loader, loader_for
from somf.data.mapping import Place
from somf.data.opening import as_source, open_source
from somf.data.patches import ImagePatches
from somf.data.sliced import SlicedSource
from somf.data.source import ArraySource, CsrSource, Source
from somf.data.stacked import StackedSource

__all__ = [
    "ArraySource",
    "CsrSource",
    "ImagePatches",
    "Loader",
    "Place",
    "SlicedSource",
    "Source",
    "StackedSource",
    "as_source",
    "epoch_order",
    "loader_for",
    "open_source",
]
