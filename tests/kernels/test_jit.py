"""Compilation: where Numba cannot cache its results, and what comes out of the cache."""

import os
import subprocess
import sys

import pytest

READ_ONLY = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []  # as if no folder could be written to
import numpy as np
import somf
X = np.random.default_rng(0).standard_normal((40, 6))
print(somf.DictionaryLearning(3, random_state=0).fit(X).components_.shape)
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
    assert answer.stdout.strip() == "(3, 6)"
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


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """Return what two processes print that share a cache, which is empty at first."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}
    return [
        subprocess.run(
            [sys.executable, "-c", BITS],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        for _ in range(2)
    ]


def test_the_process_that_compiles_and_later_ones_compute_the_same_bits(two_processes):
    first, second = two_processes
    assert first.stdout == second.stdout


def test_only_the_first_process_logs_that_it_compiles(two_processes):
    first, second = two_processes
    assert "compiled kernels for " in first.stderr
    assert "compiled kernels" not in second.stderr
