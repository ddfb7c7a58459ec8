"""What an import costs, and what it does not."""

import subprocess
import sys


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


def test_importing_somf_does_not_import_what_is_slow_or_optional():
    slow = "('numba', 'matplotlib', 'rich', 'torch')"
    program = f"import sys, somf; print([m for m in {slow} if m in sys.modules])"
    assert run(program) == "[]"


def test_a_second_process_compiles_nothing():
    program = """
import numpy as np
from numba.core import event
from somf import NMF, DictionaryLearning, SparsePCA

X = np.random.default_rng(0).random((120, 40), dtype=np.float32)
with event.install_recorder("numba:compile") as recorder:
    for kind in (DictionaryLearning, SparsePCA, NMF):
        kind(5, random_state=0).fit(X).transform(X)
print(len(recorder.buffer))
"""
    run(program)
    assert run(program) == "0"
