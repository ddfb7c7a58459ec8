"""Several processes, called ranks, that learn one dictionary together.

Every rank holds a part of the samples. `Communicator` is what they need of each other; `Alone` is a
single process, and `ProcessGroup` is torch.distributed.
"""

from somf.distributed.communicator import ALONE, Alone, Communicator, together

__all__ = ["ALONE", "Alone", "Communicator", "together"]
