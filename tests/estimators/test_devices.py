"""Every device learns the same."""

import gc
import json
import os

import numpy as np
import pytest
import scipy.sparse as sp

from somf import NMF, DictionaryLearning, ImagePatches, MatrixFactorization, SparsePCA
from somf.algorithm.solver import Solver
from somf.data import as_source
from somf.kernels import kernels_for
from somf.training.samples import Samples
from somf.training.start import start
from tests.helpers.gpu import NEEDS_CUDA, NEEDS_GPU
from tests.helpers.processes import run_python

K, P = 4, 14
VARIANTS = {
    "dictionary learning": (DictionaryLearning, {}),
    "masked codes": (DictionaryLearning, {"code_estimator": "masked"}),
    "exact codes": (DictionaryLearning, {"code_estimator": "exact"}),
    "no subsampling": (DictionaryLearning, {"reduction": 1}),
    "a reduction that is lowered": (DictionaryLearning, {"reduction": "auto"}),
    "a reduction that is lowered, Bernoulli masks": (
        DictionaryLearning,
        {"reduction": "auto", "masks": "bernoulli"},
    ),
    "Bernoulli masks": (DictionaryLearning, {"masks": "bernoulli"}),
    "Bernoulli masks, exact codes": (
        DictionaryLearning,
        {"masks": "bernoulli", "code_estimator": "exact"},
    ),
    "incremental surrogate": (DictionaryLearning, {"surrogate": "incremental"}),
    "non-negative codes": (DictionaryLearning, {"positive_code": True}),
    "non-negative atoms": (DictionaryLearning, {"positive_atoms": True}),
    "sparse PCA": (SparsePCA, {}),
    "NMF": (NMF, {}),
    "elastic nets": (MatrixFactorization, {"l1_ratio": 0.5, "atom_l1_ratio": 0.5}),
    "elastic atoms, ridge codes": (MatrixFactorization, {"l1_ratio": 0.0, "atom_l1_ratio": 0.3}),
}


def samples(n=12, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = np.abs(rng.standard_normal((n, 3)) @ rng.standard_normal((3, P)))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype)


def states_after(n_steps, kind, params, X, dtype=np.float64):
    """Return the states of all devices after some steps on the same samples."""
    found = []
    for device in ("cpu", "cuda"):
        settings = {"alpha": 0.1, "reduction": 3, "code_tol": 0.0} | params
        config = kind(K, device=device, dtype=dtype, **settings)._config().for_features(P)
        n = X.shape[0]
        state = start(config, as_source(X), Samples.alone(n), seed=0, is_finite=True)
        solver = Solver(config, state)
        columns = slice(None) if state.permutation is None else state.permutation
        for step in range(n_steps):
            ids = np.arange(3) + 2 * step  # some come again
            rows = X[ids][:, columns]
            batch = sp.csc_array(rows) if sp.issparse(rows) else np.ascontiguousarray(rows)
            solver.step(kernels_for(device).to_device(batch), ids)
        solver.check()
        found.append((state.arrays(), state.counters()))
    return found


@NEEDS_CUDA
@pytest.mark.parametrize("name", VARIANTS)
def test_a_gpu_and_the_cpu_take_the_same_steps(name):
    kind, params = VARIANTS[name]
    (cpu, counters), (gpu, gpu_counters) = states_after(3, kind, params, samples())
    assert counters == gpu_counters
    for array in cpu:
        np.testing.assert_allclose(gpu[array], cpu[array], atol=1e-10, err_msg=array)
        assert gpu[array].dtype == cpu[array].dtype


@NEEDS_CUDA
def test_a_gpu_takes_the_same_steps_on_sparse_samples():
    X = sp.csr_array(np.where(samples() > 0.2, samples(), 0))
    (cpu, _), (gpu, _) = states_after(2, DictionaryLearning, {}, X)
    for array in cpu:
        np.testing.assert_allclose(gpu[array], cpu[array], atol=1e-10, err_msg=array)


@NEEDS_CUDA
def test_single_precision_stays_single_on_a_gpu():
    X = samples(dtype=np.float32)
    (cpu, _), (gpu, _) = states_after(2, DictionaryLearning, {}, X, np.float32)
    for array in cpu:
        np.testing.assert_allclose(gpu[array], cpu[array], atol=1e-4, err_msg=array)
        assert gpu[array].dtype == cpu[array].dtype


@NEEDS_CUDA
def test_unused_atoms_are_replaced_on_a_gpu_too():
    X = samples(8)
    X[:, -2:] = 0
    params = {"init": np.vstack([X[:2], np.eye(P)[-2:]]), "reduction": 1, "batch_size": 4}
    models = [
        DictionaryLearning(
            K, alpha=0.05, n_epochs=2, code_tol=0.0, device=device, random_state=0, **params
        ).fit(X)
        for device in ("cpu", "cuda")
    ]
    assert not models[0].components_[:, -2:].any()  # nothing is left of the useless ones
    np.testing.assert_allclose(models[1].components_, models[0].components_, atol=1e-9)


@NEEDS_CUDA
def test_what_is_learned_on_a_gpu_serves_without_one(tmp_path):
    X = samples()
    params = {"batch_size": 6, "n_epochs": 1, "reduction": 2, "random_state": 0}
    model = DictionaryLearning(K, device="cuda", **params).fit(X)
    assert isinstance(model.components_, np.ndarray)
    model.save(tmp_path / "model.somf", state=True)
    np.save(tmp_path / "X.npy", X)
    script = """
import json, sys
import numpy as np, somf
model = somf.load(sys.argv[1])
X = np.load(sys.argv[2])
print(json.dumps([model.device, model.transform(X).tolist(), model.partial_fit(X).n_iter_]))
"""
    answer = run_without_interpreter(
        WITHOUT.format("torch") + script, tmp_path / "model.somf", tmp_path / "X.npy"
    )
    device, code, n_iter = json.loads(answer.stdout)
    assert device == "cpu"
    assert n_iter == 4
    np.testing.assert_allclose(code, model.transform(X), atol=1e-5)


def run_without_interpreter(script, *arguments):
    environment = {name: os.environ[name] for name in os.environ if name != "TRITON_INTERPRET"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    return run_python(script, *arguments, env=environment)


WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "{0}":
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Missing())
"""
FAILING_FIT = """
import numpy as np
from somf import DictionaryLearning
try:
    DictionaryLearning(2, device="cuda").fit(np.eye(3))
except (ImportError, RuntimeError) as error:
    print(error)
"""


@NEEDS_CUDA
def test_without_a_gpu_the_error_says_so():
    message = run_without_interpreter(FAILING_FIT).stdout
    assert 'device="cuda" needs an NVIDIA GPU' in message
    assert 'device="cpu"' in message


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_without_torch_or_triton_the_error_names_the_extra(missing):
    if missing == "triton":
        pytest.importorskip("torch")
    message = run_without_interpreter(WITHOUT.format(missing) + FAILING_FIT).stdout
    assert message.strip() == (
        f"device=\"cuda\" needs {missing}, which is not installed: pip install 'somf[cuda]'."
    )


@NEEDS_CUDA
def test_a_device_that_is_short_of_memory_says_what_to_reduce(monkeypatch):
    import torch

    def step(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(Solver, "step", step)
    with pytest.raises(MemoryError, match="Reduce n_components or batch_size"):
        DictionaryLearning(K, device="cuda").fit(samples())


@NEEDS_GPU
def test_a_fit_that_needs_too_much_leaves_nothing_on_the_gpu():
    import torch

    X = np.random.default_rng(0).standard_normal((300, 20_000)).astype(np.float32)
    DictionaryLearning(10, device="cuda").fit(X)  # the workspace of the GPU's BLAS stays
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.set_per_process_memory_fraction(2e8 / torch.cuda.mem_get_info()[1])
    try:
        with pytest.raises(MemoryError, match="Reduce n_components"):
            DictionaryLearning(2000, batch_size=100, device="cuda").fit(X)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    gc.collect()
    assert torch.cuda.memory_allocated() <= before
    DictionaryLearning(10, device="cuda").fit(X)
    gc.collect()
    assert torch.cuda.memory_allocated() <= before


@NEEDS_GPU
@pytest.mark.parametrize("kind", [DictionaryLearning, SparsePCA, NMF])
def test_after_an_epoch_the_objectives_agree(kind):
    image = np.abs(np.random.default_rng(0).standard_normal((40, 40, 10))).cumsum(axis=2)
    patches = ImagePatches(image.astype(np.float32), 8, center=kind is not NMF)
    settings = {"alpha": 0.05, "batch_size": 64, "n_epochs": 1, "random_state": 0}
    objectives = [
        kind(30, device=device, **settings).fit(patches).objective(patches)
        for device in ("cpu", "cuda")
    ]
    assert objectives[1] == pytest.approx(objectives[0], rel=1e-3)


@NEEDS_CUDA
@pytest.mark.parametrize(("first", "second"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_checkpoint_of_one_device_is_resumed_on_another(tmp_path, first, second):
    X = samples(12)

    class PowerCutError(Exception):
        pass

    def cut(progress):
        if progress.n_samples_seen == 9:
            raise PowerCutError

    def learner(device, **params):
        params = {"n_epochs": 2, "batch_size": 3, "reduction": 2, "code_tol": 0.0} | params
        return DictionaryLearning(K, device=device, random_state=0, **params)

    path = tmp_path / "fit.ckpt"
    with pytest.raises(PowerCutError):
        learner(first, checkpoint=path, callbacks=cut).fit(X)
    resumed = learner(second, checkpoint=path).fit(X)
    undisturbed = learner("cpu").fit(X)
    np.testing.assert_allclose(resumed.components_, undisturbed.components_, atol=1e-10)
    assert resumed.n_iter_ == 8


@NEEDS_CUDA
@pytest.mark.parametrize("missing", ["error", "nan"])
def test_a_gpu_ends_a_fit_with_the_same_passes(missing):
    X, settings = samples(10), {"missing": missing, "tol": 0, "n_epochs": 6, "random_state": 0}
    if missing == "nan":
        X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    on_cpu, on_gpu = (
        DictionaryLearning(3, alpha=0.1, batch_size=12, device=device, **settings).fit(X)
        for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(on_gpu.components_, on_cpu.components_, atol=1e-4)
    assert on_gpu._state.n_remembered == pytest.approx(on_cpu._state.n_remembered, rel=1e-3)
    on_gpu.partial_fit(X)


@NEEDS_CUDA
def test_statistics_that_do_not_fit_on_the_device_stay_on_the_host(monkeypatch):
    from somf.kernels.cuda import device

    params = {"batch_size": 6, "n_epochs": 1, "reduction": 2, "code_tol": 0.0, "random_state": 0}
    expected = DictionaryLearning(K, **params).fit(samples())
    monkeypatch.setattr(device, "has_room", lambda n_bytes: False)
    model = DictionaryLearning(K, device="cuda", **params).fit(samples())
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-10)


@NEEDS_CUDA
def test_a_stream_is_learned_from_on_a_gpu():
    X = samples(12)
    models = []
    for device in ("cpu", "cuda"):
        model = DictionaryLearning(
            K, batch_size=6, reduction=2, code_tol=0.0, device=device, random_state=0
        )
        for part in (slice(0, 6), slice(3, 9)):
            model.partial_fit(X[part], sample_ids=np.arange(12)[part])
        models.append(model)
    np.testing.assert_allclose(models[1].components_, models[0].components_, atol=1e-10)
    assert models[1].stationarity_gap(X) == pytest.approx(models[0].stationarity_gap(X), rel=1e-4)


@NEEDS_CUDA
def test_a_gpu_finds_the_same_weight_for_a_density(monkeypatch):
    monkeypatch.setattr("somf.training.density_probes.PRECISION", 0.5)  # the interpreter is slow
    params = {"alpha": "auto", "code_density": 0.2, "batch_size": 4, "n_epochs": 1, "reduction": 1}
    found = [
        DictionaryLearning(K, device=device, random_state=0, **params).fit(samples(4)).alpha_
        for device in ("cpu", "cuda")
    ]
    assert found[1] == pytest.approx(found[0], rel=1e-4)  # codes are solved to a tolerance
