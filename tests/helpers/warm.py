"""Imported once by the process that all ranks are forked from: libraries, and compiled kernels."""

import warnings

import torch.distributed  # noqa: F401 (what takes long to import)
import zarr  # noqa: F401 (likewise)

import somf
from tests.helpers.problems import planted

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for kind in (somf.DictionaryLearning, somf.SparsePCA, somf.NMF):
        for surrogate in ("online", "incremental"):
            kind(8, surrogate=surrogate, n_threads=1, n_epochs=2, random_state=0).fit(
                abs(planted(60, 50, 8)[0]), ranks="off"
            )
