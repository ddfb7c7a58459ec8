"""Imports are light, and compiled kernels are cached."""

import re
import subprocess
import sys


def run(program: str) -> str:
    """Return the output of a program that runs in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


def test_importing_somf_does_not_import_slow_or_optional_libraries():
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


def test_the_first_fit_logs_its_compilation_and_does_not_count_it_as_compute_time(tmp_path):
    program = f"""
import logging, os
os.environ["NUMBA_CACHE_DIR"] = {str(tmp_path)!r}
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=__import__("sys").stdout)
import numpy as np
from somf import DictionaryLearning

X = np.random.default_rng(0).random((120, 40), dtype=np.float32)
history = DictionaryLearning(5, random_state=0).fit(X).history_
print(history["wall_seconds"][-1] - history["compute_seconds"][-1])
"""
    first, second = run(program), run(program)
    compilation = float(re.search(r"compiled kernels for ([\d.]+) s", first)[1])
    not_counted = float(first.splitlines()[-1])
    assert not_counted > compilation - 0.1  # the log has one digit
    assert "compiled kernels" not in second
