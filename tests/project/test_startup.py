"""Imports are light, and compiled kernels are cached."""

import logging
from contextlib import nullcontext

import pytest

import somf
from somf import DictionaryLearning
from somf.kernels.cpu import jit
from tests.helpers.processes import run_forks, run_python


def run(program: str) -> str:
    """Return the output of a program that runs in a new process."""
    return run_python(program).stdout.strip()


def test_importing_somf_does_not_import_slow_or_optional_libraries():
    slow = "('numba', 'matplotlib', 'rich', 'torch')"
    program = f"import sys, somf; print([m for m in {slow} if m in sys.modules])"
    assert run(program) == "[]"


def test_importing_somf_is_quick_and_its_names_are_imported_when_they_are_used():
    program = """
import sys, somf
print("numpy" in sys.modules, set(somf.__all__) <= set(dir(somf)))
print(somf.plotting.__name__, somf.report.write_report.__name__, somf.NMF.__name__)
print(somf.__version__.count("."))
"""
    assert run(program).split() == ["False", "True", "somf.plotting", "write_report", "NMF", "2"]


def test_a_fit_of_an_array_imports_no_library_of_files_or_of_other_tools():
    program = """
import sys, numpy as np, sklearn.base, somf
before = set(sys.modules)
somf.NMF(2, n_epochs=1, random_state=0).fit(np.ones((30, 5)))
optional = {"anndata", "click", "dask", "fsspec", "h5py", "hyperspy", "nibabel", "nilearn"}
optional |= {"pandas", "polars", "pyarrow", "rich", "spectral", "torch", "xarray", "zarr"}
print(sorted(optional & (set(sys.modules) - before)))
"""
    assert run(program) == "[]"


def test_a_name_that_somf_does_not_have_is_an_error():
    with pytest.raises(AttributeError, match="DictionaryLearnin"):
        somf.DictionaryLearnin  # noqa: B018 (it must not be there)


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
    first, second = run_forks(program, [[], []], ["sklearn.base", "numba"])
    assert first.returncode == 0, first.stderr
    assert second.stdout.strip() == "0", second.stderr


def test_compilation_is_not_counted_as_compute_time(monkeypatch, caplog, toy):
    monkeypatch.setattr(jit, "compilation_timer", lambda: nullcontext(lambda: 1000.0))
    with caplog.at_level(logging.INFO, logger="somf"):
        history = DictionaryLearning(5, random_state=0).fit(toy).history_
    assert history["compute_seconds"][-1] <= history["wall_seconds"][-1] - 1000
    assert "compiled kernels for 1000.0 s" in caplog.text
