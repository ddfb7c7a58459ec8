"""Ranks with tensors on a GPU: through gloo if they share it, by NCCL if each has its own."""

import numpy as np
import pytest

from tests.distributed import jobs
from tests.helpers.ranks import team

torch = pytest.importorskip("torch", reason="torch comes with the extra 'distributed'")

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

SECONDS = 300
"""For one fit: the first one compiles kernels for the GPU."""


def fits(folder, cases, environment=None):
    """Return the atoms of two ranks on each device."""
    with team(2, folder, environment) as ranks:
        return [
            [
                ranks.run(jobs.fit, kind, settings | {"device": device}, X, timeout=SECONDS)
                for kind, settings, X in cases
            ]
            for device in ("cpu", "cuda")
        ]


def cases(n, p, **settings):
    for kind, extra in jobs.PROBLEMS.items():
        for surrogate in ("online", "incremental"):
            params = jobs.params(surrogate=surrogate, code_tol=0.0, **extra) | settings
            yield kind, params, jobs.samples(kind, n, p)


def check(found):
    for on_host, on_device in zip(*found, strict=True):
        np.testing.assert_allclose(on_device[0][0], on_host[0][0], atol=1e-6)
        assert on_device[0][0].tobytes() == on_device[1][0].tobytes()


@NEEDS_GPU
def test_two_ranks_that_share_a_gpu_learn_what_two_ranks_on_the_cpu_learn(tmp_path):
    check(fits(tmp_path, list(cases(131, 50))))


@pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is for machines without GPU")
def test_two_ranks_learn_with_interpreted_kernels_what_they_learn_on_the_cpu(tmp_path):
    pytest.importorskip("triton", reason="Triton comes with the extra 'cuda'")
    settings = {"n_components": 3, "batch_size": 10, "n_epochs": 1, "code_tol": 1e-12}
    some = list(cases(20, 12, **settings))[::5]  # rows of atoms spread over ranks, and not
    check(fits(tmp_path, some, {"TRITON_INTERPRET": "1"}))


@NEEDS_GPU
def test_nccl_carries_tensors_on_the_gpu(tmp_path):
    some = [case for case in cases(131, 50) if case[1]["surrogate"] == "online"]
    with team(1, tmp_path) as ranks:
        (found,) = ranks.run(jobs.use_nccl, some, timeout=SECONDS)
    np.testing.assert_array_equal(found["sum"], np.arange(3000.0))
    assert found["exchanged"] == [0.0, 1.0, 2.0]
    assert found["number"] == 2.5
    for alone, by_nccl in found["fits"]:
        np.testing.assert_allclose(by_nccl, alone, atol=1e-6)
