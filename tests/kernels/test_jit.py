"""Compilation: where Numba cannot cache its results, and what comes out of the cache."""

import os
import subprocess
import sys

from tests.helpers.processes import run_forks

READ_ONLY = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []  # as if no folder could be written to
import numpy as np
from somf.data import gather
from somf.kernels.cpu import kernels  # defines all kernels of a fit
print(kernels.squared_norms(np.ones((2, 6)), (slice(0, 6),)))
"""


def test_a_read_only_installation_compiles_in_every_process_and_says_so_once():
    environment = {name: os.environ[name] for name in os.environ if name != "NUMBA_CACHE_DIR"}
    answer = subprocess.run(
        [sys.executable, "-c", READ_ONLY],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == "[6. 6.]"
    assert answer.stderr.count("Set NUMBA_CACHE_DIR") == 1


BITS = """
import logging
import numpy as np
import somf
logging.basicConfig(level=logging.INFO, format="%(message)s")
X = np.random.default_rng(0).standard_normal((200, 60))
model = somf.SparsePCA(5, alpha=0.1, n_epochs=2, tol=0, random_state=0, n_threads=1).fit(X)
print(model.components_.tobytes().hex())
"""


def test_only_the_first_process_compiles_and_later_ones_compute_the_same_bits(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = run_forks(BITS, [[], []], ["sklearn.base", "numba"], env=environment)
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert first.stdout == second.stdout
    assert "compiled kernels for " in first.stderr
    assert "compiled kernels" not in second.stderr
