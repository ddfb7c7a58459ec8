"""Where samples come from, and how they become minibatches.

A minibatch takes one path: source → order → readahead → gather → minibatch. `Loader` is that path.
"""

from somf.data.channels import Channels
from somf.data.devices import loader_for
from somf.data.formats.open import as_source, open_source
from somf.data.images.noise import noise_bound, noise_level
from somf.data.images.patches import ImagePatches
from somf.data.loader import Loader
from somf.data.observed import ObservedSource
from somf.data.offsets import Offsets
from somf.data.order import epoch_order
from somf.data.source import Source
from somf.data.sources.arrays import ArraySource
from somf.data.sources.sliced import SlicedSource
from somf.data.sources.sparse import CsrSource
from somf.data.sources.stacked import StackedSource

__all__ = [
    "ArraySource",
    "Channels",
    "CsrSource",
    "ImagePatches",
    "Loader",
    "ObservedSource",
    "Offsets",
    "SlicedSource",
    "Source",
    "StackedSource",
    "as_source",
    "epoch_order",
    "loader_for",
    "noise_bound",
    "noise_level",
    "open_source",
]
