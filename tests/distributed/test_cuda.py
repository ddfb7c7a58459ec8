"""Ranks with tensors on a GPU: through gloo if they share it, by NCCL if each has its own."""

import numpy as np
import pytest

from tests.distributed import jobs
from tests.helpers.ranks import team

torch = pytest.importorskip("torch", reason="torch comes with the extra 'distributed'")

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def fits(folder, cases, environment=None):
    """Return the atoms of two ranks on each device."""
    with team(2, folder, environment) as ranks:
        return [
            [
                ranks.run(jobs.fit, kind, settings | {"device": device}, X)
                for kind, settings, X in cases
            ]
            for device in ("cpu", "cuda")
        ]


def cases(n, p, **settings):
    for kind, extra in jobs.PROBLEMS.items():
        for surrogate in ("online", "incremental"):
            params = jobs.params(surrogate=surrogate, code_tol=1e-12, **extra, **settings)
            yield kind, params, jobs.samples(kind, n, p)


def check(found):
    for on_host, on_device in zip(*found, strict=True):
        np.testing.assert_allclose(on_device[0][0], on_host[0][0], atol=1e-7)
        assert on_device[0][0].tobytes() == on_device[1][0].tobytes()


@NEEDS_GPU
def test_two_ranks_that_share_a_gpu_learn_what_two_ranks_on_the_cpu_learn(tmp_path):
    check(fits(tmp_path, list(cases(131, 50))))


@pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is for machines without GPU")
def test_two_ranks_learn_with_interpreted_kernels_what_they_learn_on_the_cpu(tmp_path):
    pytest.importorskip("triton", reason="Triton comes with the extra 'cuda'")
    settings = {"n_components": 3, "batch_size": 20, "n_epochs": 1}
    some = list(cases(40, 12, **settings))[::3]
    check(fits(tmp_path, some, {"TRITON_INTERPRET": "1"}))


@NEEDS_GPU
def test_nccl_sums_tensors_on_the_gpu(tmp_path):
    with team(1, tmp_path) as ranks:
        (found,) = ranks.run(jobs.sum_by_nccl)
    np.testing.assert_array_equal(found["sum"], np.arange(3000.0))
    assert found["exchanged"] == [0.0, 1.0, 2.0]
    assert found["number"] == 2.5
