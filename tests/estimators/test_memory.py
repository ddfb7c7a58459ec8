"""Bounds on memory, measured in a process of their own."""

import os

import numpy as np
import pytest

from tests.helpers.processes import FITTING, run_forks

pytestmark = pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK),
    reason="peak memory is read from /proc, and reset through /proc/self/clear_refs",
)


HARNESS = """
import sys
import numpy as np
from pathlib import Path
from somf import DictionaryLearning

def status(name):
    line = [x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(name)]
    return int(line[0].split()[1]) * 1024

rng = np.random.default_rng(0)
exec(sys.argv[1])
warm = rng.standard_normal((200, 50)).astype(np.float32)
for reduction in (1, 4):  # imports, compilation
    DictionaryLearning(10, reduction=reduction, n_epochs=1, **params).fit(warm)
Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
before = status("VmRSS")
run()
print(status("VmHWM") - before)
"""


def peak_growths(*programs: str) -> list[int]:
    """Return by how many bytes the peak memory of each process grows while `run()` runs."""
    processes = run_forks(HARNESS, [[program] for program in programs], FITTING)
    for done in processes:
        assert done.returncode == 0, done.stderr
    return [int(done.stdout) for done in processes]


def test_memory_beyond_the_data_is_bounded():
    n, p, k = 800, 120_000, 32
    cases = [
        (params, reduction, is_kept)
        for params, is_kept in (
            ({}, True),
            ({"surrogate": "incremental", "code_estimator": "exact"}, True),
            ({"code_estimator": "masked"}, False),
        )
        for reduction in (1, 12)
    ]
    growths = peak_growths(
        *(
            f"""
params = {params!r}
X = np.lib.stride_tricks.as_strided(
    rng.standard_normal({p} + {n}).astype(np.float32), ({n}, {p}), (4, 4))
model = DictionaryLearning({k}, reduction={reduction}, random_state=0, n_epochs=1, **params)
run = lambda: model.fit(X)
"""
            for params, reduction, _ in cases
        )
    )
    for grown, (params, reduction, is_kept) in zip(growths, cases, strict=True):
        per_sample = 2 * k + 2 * reduction if is_kept else 0
        assert grown <= 4 * (6 * p * k + n * per_sample) + 300e6, (params, reduction)
        assert grown < 0.6 * n * p * 4, (params, reduction)  # nothing like a copy of the data


def test_block_masks_need_nothing_of_size_n_k_squared():
    n, k = 10_000, 100
    (grown,) = peak_growths(f"""
params = {{}}
X = rng.standard_normal(({n}, 100)).astype(np.float32)
run = lambda: DictionaryLearning({k}, n_epochs=1, random_state=0, **params).fit(X)
""")
    assert grown < 0.25 * n * k * k * 4


def test_an_epoch_over_a_memory_map_of_3_gb_stays_far_below_that(tmp_path):
    n, p = 15_000, 50_000  # a sparse file, which takes no room on the disk
    np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n, p))
    assert (tmp_path / "X.npy").stat().st_size > 2.9e9
    (grown,) = peak_growths(f"""
params = {{}}
settings = dict(init="random", reduction=12, batch_size=400, n_epochs=1, random_state=0)
run = lambda: DictionaryLearning(10, **settings).fit({str(tmp_path / "X.npy")!r})
""")
    assert grown < 1.2e9  # the process takes 0.3 GB before the fit
