"""A hash of all samples of an epoch, to detect data that changes during a fit."""

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from somf.distributed import ALONE, Communicator
from somf.errors import DataError
from somf.kernels.host import to_host
from somf.typing import Ints, Matrix

DIGEST_BYTES = 16
"""Bytes of the hash of a sample, and of that of an epoch."""


class EpochHash:
    """The hash of the samples that an epoch has seen so far, and those of the first epochs.

    The hash is a sum over samples, so that their order does not matter, which may change.

    Attributes
    ----------
    references : dict of str to str
        The hash of the first whole epoch on each device: normalised patches differ by rounding.
    device : str
        Where the samples of the present epoch were loaded.
    n_samples_seen : int
        How many samples the fit had seen after the last one that was hashed.
    total : int
        The sum over the samples of the present epoch.
    """

    def __init__(self, communicator: Communicator = ALONE) -> None:
        self.communicator = communicator
        self.references: dict[str, str] = {}
        self.device, self.n_samples_seen, self.total = "", 0, 0

    def fields(self) -> dict[str, Any]:
        """Return everything, of all ranks, in a form that JSON can hold."""
        return {
            "references": self.references,
            "device": self.device,
            "n_samples_seen": self.n_samples_seen,
            "total": self._total_of_ranks(),
        }

    def _total_of_ranks(self) -> str:
        totals = self.communicator.tell(f"{self.total:x}")
        return f"{sum(int(total, 16) for total in totals) % 256**DIGEST_BYTES:x}"

    def restore(self, fields: dict[str, Any]) -> None:
        """Take over what `fields` has returned, or raise ValueError."""
        references = {str(name): str(value) for name, value in fields["references"].items()}
        n_samples_seen, total = int(fields["n_samples_seen"]), int(fields["total"], 16)
        self.references, self.device = references, str(fields["device"])
        self.n_samples_seen = n_samples_seen
        self.total = total if self.communicator.rank == 0 else 0

    def add(
        self, X: Matrix, ids: Ints, device: str, n_samples_seen: int, n_epoch: int, size: int
    ) -> None:
        """Add a minibatch.

        Parameters
        ----------
        X : array or csc_array of shape (b, p)
            Before the solver sees it.
        ids : ndarray of shape (b,)
        device : str
        n_samples_seen : int
            How many samples the fit has seen before.
        n_epoch : int
            Samples of an epoch, on all ranks.
        size : int
            Samples of the minibatch, on all ranks.

        Raises
        ------
        DataError
            If this ends an epoch whose samples are not those of the first one.
        """
        if n_samples_seen % n_epoch == 0:
            self.device, self.n_samples_seen, self.total = device, n_samples_seen, 0
        if (self.device, self.n_samples_seen) != (device, n_samples_seen):
            return  # the beginning of this epoch was not hashed
        self.n_samples_seen += size
        self.total = (self.total + _sum_of_hashes(X, ids)) % 256**DIGEST_BYTES
        if self.n_samples_seen % n_epoch == 0:
            found = self._total_of_ranks()
            if self.references.setdefault(device, found) != found:
                raise DataError(
                    "X must be the same in all epochs of a fit, but some samples have changed "
                    "since the first epoch. Remove the checkpoint to start again, or continue "
                    "without hash_data."
                )


def _sum_of_hashes(X: Matrix, ids: Ints) -> int:
    if isinstance(X, sp.csc_array):
        csr = X.tocsr()
        ends = zip(csr.indptr[:-1].tolist(), csr.indptr[1:].tolist(), strict=True)
        indices = csr.indices.astype(np.int64)
        rows = [[indices[a:b], csr.data[a:b]] for a, b in ends]
    else:
        rows = [[row] for row in np.ascontiguousarray(to_host(X))]
    total = 0
    for i, parts in zip(ids.tolist(), rows, strict=True):
        digest = hashlib.blake2b(i.to_bytes(8, "little"), digest_size=DIGEST_BYTES)
        for part in parts:
            digest.update(part.data)
        total += int.from_bytes(digest.digest(), "little")
    return total
