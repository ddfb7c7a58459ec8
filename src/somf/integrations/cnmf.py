"""cNMF (Kotliar et al., 2019) with the factorizations of somf.

Replace ``from cnmf import cNMF`` by ``from somf.integrations.cnmf import cNMF``. All else stays as
it is: `prepare`, `factorize`, `combine`, `consensus`, `k_selection_plot`, and their files.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from somf.errors import ParameterError
from somf.integrations.gene_programs import factorize, usages_of
from somf.optional import import_optional
from somf.typing import Array

__all__ = ["cNMF"]

_Original: Any = import_optional("cnmf", "cnmf", "somf.integrations.cnmf").cNMF


class cNMF(_Original):  # noqa: N801 (the name that it replaces)
    """cNMF whose runs are factorizations by somf, which converge further in a part of the time.

    Parameters
    ----------
    output_dir, name : str
        Those of `cnmf.cNMF`.

    Attributes
    ----------
    n_threads : int or None
        Threads of one run; None means all cores. The default is 1, since runs are independent:
        several workers (`factorize_multi_process`) use several cores better than several threads.
    """

    n_threads: int | None = 1

    def _nmf(self, X: Any, nmf_kwargs: Mapping[str, Any]) -> tuple[Array, Array]:
        """Factorize counts, or find usages for given spectra.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_cells, n_genes)
        nmf_kwargs : mapping
            Arguments of scikit-learn's `non_negative_factorization`, as cNMF sets them. Only
            ``beta_loss="frobenius"`` without penalties is possible.

        Returns
        -------
        spectra : ndarray of shape (n_components, n_genes)
        usages : ndarray of shape (n_cells, n_components)
        """
        _check_arguments(nmf_kwargs)
        if not nmf_kwargs.get("update_H", True):
            spectra = np.asarray(nmf_kwargs["H"])
            return spectra, usages_of(X, spectra, n_threads=self.n_threads)
        return factorize(
            X,
            int(nmf_kwargs["n_components"]),
            init=nmf_kwargs.get("init") or "nndsvda",
            max_iter=int(nmf_kwargs.get("max_iter", 1000)),
            random_state=int(nmf_kwargs.get("random_state") or 0),
            n_threads=self.n_threads,
        )


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise ParameterError if scikit-learn would solve another problem."""
    other = "Use cNMF of the package cnmf for it."
    loss = arguments.get("beta_loss", "frobenius")
    if loss not in ("frobenius", 2):
        raise ParameterError("beta_loss", "be 'frobenius'", loss, other)
    for name, given in (("alpha_usage", "alpha_W"), ("alpha_spectra", "alpha_H")):
        value = arguments.get(given, 0.0)
        # scikit-learn's "same" stands for alpha_W, which is checked before.
        if value not in (0, "same"):
            raise ParameterError(name, "be 0", value, other)
