"""Unknown entries, weights of entries, weights of samples."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import somf
from somf import NMF, DictionaryLearning, MatrixFactorization, SparsePCA
from somf.errors import DataError, NotFiniteError, ParameterError, ScaleError
from tests.helpers.fits import assert_same_fit, fit_with_stops, sklearn_clone
from tests.helpers.gpu import NEEDS_CUDA
from tests.helpers.problems import planted, random_csr

K = 4
TIGHT = {"code_tol": 1e-12, "n_epochs": 2, "tol": 0, "batch_size": 20, "random_state": 0}
PROBLEMS = {
    "dictionary learning": (DictionaryLearning, {"alpha": 0.05}),
    "sparse PCA": (SparsePCA, {"alpha": 0.01, "transform_alpha": 0.01}),
    "NMF": (NMF, {"alpha": 0.01, "init": "samples"}),
    "elastic nets": (MatrixFactorization, {"alpha": 0.05, "l1_ratio": 0.5, "atom_l1_ratio": 0.4}),
}
RIDGE = {"alpha": 0.01, "atom_alpha": 0.5, "l1_ratio": 0.0, "surrogate": "incremental"}
"""Both factors have squared penalties."""

EACH_PROBLEM = pytest.mark.parametrize(("kind", "params"), PROBLEMS.values(), ids=PROBLEMS)


@pytest.fixture(scope="module", name="X")
def samples():
    return np.abs(planted(120, 24, K, density=0.6, noise=0.02)[0])


def holes(X, share, seed=0):
    """Return X with a share of its entries unknown, and where these are."""
    unknown = np.random.default_rng(seed).random(X.shape) < share
    return np.where(unknown, np.nan, X), unknown


def absent(X):
    """Return dense data with NaN as a sparse matrix that has these entries not stored."""
    known = ~np.isnan(X)
    rows, columns = np.nonzero(known)
    return sp.csr_array((X[known], (rows, columns)), shape=X.shape)


@EACH_PROBLEM
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
@pytest.mark.parametrize(
    "masks",
    [
        {"reduction": 1},
        {"reduction": 2, "code_estimator": "masked"},
        {"reduction": 2, "code_estimator": "exact"},
        {"reduction": 2, "code_estimator": "averaged", "masks": "bernoulli"},
    ],
    ids=["all features", "masked", "exact", "averaged"],
)
def test_with_nothing_missing_the_result_is_that_without_the_option(
    X, kind, params, surrogate, masks
):
    settings = TIGHT | params | masks | {"surrogate": surrogate}
    plain = kind(K, **settings).fit(X)
    for model, data in (
        (kind(K, missing="nan", **settings), X),
        (kind(K, missing="absent", **settings), absent(X)),
    ):
        np.testing.assert_allclose(model.fit(data).components_, plain.components_, atol=1e-7)
        np.testing.assert_allclose(model.transform(data), plain.transform(X), atol=1e-4)
        assert model.objective(data) == pytest.approx(plain.objective(X), rel=1e-6)


@EACH_PROBLEM
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_with_whole_features_missing_the_result_is_that_of_the_rest(X, kind, params, surrogate):
    settings = TIGHT | params | {"reduction": 1, "surrogate": surrogate}
    known = np.delete(np.arange(24), [3, 11, 12])
    rest = kind(K, **settings).fit(X[:, known])
    Y = X.copy()
    Y[:, [3, 11, 12]] = np.nan
    for missing, data in (("nan", Y), ("absent", absent(Y))):
        model = kind(K, missing=missing, **settings).fit(data)
        np.testing.assert_allclose(model.components_[:, known], rest.components_, atol=1e-7)
        assert not model.components_[:, [3, 11, 12]].any()


@pytest.mark.parametrize("share", [0.2, 0.7])
@EACH_PROBLEM
def test_unknown_entries_are_the_same_whether_they_are_nan_or_absent(X, kind, params, share):
    Y, _ = holes(X, share)
    models = [
        kind(K, missing=missing, **TIGHT, **params).fit(data)
        for missing, data in (("nan", Y), ("absent", absent(Y)))
    ]
    np.testing.assert_allclose(models[1].components_, models[0].components_, atol=1e-6)


@pytest.mark.parametrize("share", [0.2, 0.7])
@EACH_PROBLEM
def test_codes_satisfy_the_optimality_conditions_on_known_entries(X, kind, params, share):
    Y, unknown = holes(X, share)
    model = kind(K, **TIGHT | params | {"missing": "nan"}).fit(Y)
    penalty, codes = model._config().transform_penalty, model.transform(Y)
    residual = np.where(unknown, 0, X - codes @ model.components_)
    gradient = penalty.l2 * codes - residual @ model.components_.T
    used = codes != 0
    np.testing.assert_allclose(gradient[used], -penalty.l1 * np.sign(codes[used]), atol=1e-4)
    least = gradient[~used] if penalty.positive else -np.abs(gradient[~used])
    assert (least >= -penalty.l1 - 1e-4).all()


@EACH_PROBLEM
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_the_gradient_of_the_objective_is_that_of_finite_differences(X, kind, params, share):
    Y, _ = holes(X, share)
    model = kind(K, missing="nan", **TIGHT, **params).fit(Y)
    rng = np.random.default_rng(0)
    weights = rng.random(len(X))
    # Frank and Wolfe: the gap is the largest decrease to first order, also from the fit itself.
    gap = model.stationarity_gap(Y, sample_weight=weights)
    before, atoms = model.objective(Y, sample_weight=weights, tol=1e-12), model.components_
    ball = model._config().ball
    for _ in range(5):
        other = ball.normalise(np.abs(rng.standard_normal(atoms.T.shape))).T
        model.components_ = atoms + 1e-6 * (other - atoms)
        slope = (model.objective(Y, sample_weight=weights, tol=1e-12) - before) / 1e-6
        assert slope >= -gap - 1e-4


@pytest.mark.parametrize("share", [0.2, 0.7])
@EACH_PROBLEM
def test_the_incremental_surrogate_converges_to_a_stationary_point(X, kind, params, share):
    Y, _ = holes(X, share)
    settings = TIGHT | params | {"surrogate": "incremental", "missing": "nan", "reduction": 1}
    model = kind(2, **settings | {"code_tol": 1e-14, "n_epochs": 1, "batch_size": 60}).fit(Y)
    assert model.stationarity_gap(Y) > 1e-3
    model.set_params(n_epochs=300).fit(Y)
    assert model.transform(Y).any()
    assert abs(model.stationarity_gap(Y)) < 1e-12


PASSES = {"n_epochs": 12, "reduction": 1, "surrogate": "online"}
"""Parameters of a fit that ends with passes over all samples."""

PENALISED = {"alpha": 0.01, "atom_alpha": 0.5, "l1_ratio": 0.0, "alpha_per": "entry"}
"""Both factors have squared penalties, for every known entry."""

WITH_PENALTIES = pytest.mark.parametrize(
    ("kind", "params"),
    [*PROBLEMS.values(), (MatrixFactorization, PENALISED)],
    ids=[*PROBLEMS, "penalties per entry"],
)


@EACH_PROBLEM
def test_passes_with_nothing_missing_are_those_without_the_option(X, kind, params):
    settings = TIGHT | params | PASSES
    plain = kind(K, **settings).fit(X)
    for model, data in (
        (kind(K, missing="nan", **settings), X),
        (kind(K, missing="absent", **settings), absent(X)),
    ):
        np.testing.assert_allclose(model.fit(data).components_, plain.components_, atol=1e-6)


@pytest.mark.parametrize("share", [0.2, 0.7])
@WITH_PENALTIES
def test_passes_over_known_entries_converge_to_a_stationary_point(X, kind, params, share):
    Y, _ = holes(X, share)
    settings = TIGHT | params | PASSES | {"missing": "nan", "code_tol": 1e-14}
    model = kind(2, **settings | {"n_epochs": 1}).fit(Y)
    assert model.stationarity_gap(Y) > 1e-4
    model.set_params(n_epochs=400).fit(Y)
    assert model.transform(Y).any()
    assert abs(model.stationarity_gap(Y)) < 1e-8


@WITH_PENALTIES
def test_the_objective_of_passes_counts_samples_by_their_weights(X, kind, params):
    Y, counts = holes(X, 0.2)[0], np.random.default_rng(0).integers(1, 5, len(X))
    settings = TIGHT | params | PASSES | {"missing": "nan", "n_epochs": 400}
    model = kind(2, **settings).fit(Y, sample_weight=counts)
    assert abs(model.stationarity_gap(Y, sample_weight=counts)) < 1e-6
    expected = model.objective(Y, sample_weight=counts)
    assert model.history_["training_objective"][-1] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_fits_that_are_interrupted_in_passes_over_known_entries_resume_bit_by_bit(
    X, tmp_path, monkeypatch, share
):
    monkeypatch.setattr("somf.training.loop.PASS_ENTRIES", 24 * 50)  # three minibatches
    Y, counts = holes(X, share)[0], np.arange(1.0, 121.0)
    settings = {"missing": "nan", "center": "both", "random_state": 0}
    model = MatrixFactorization(K, **settings, **PENALISED)
    undisturbed = sklearn_clone(model).fit(Y, sample_weight=counts)
    last = undisturbed.n_iter_
    stops = [1, *range(last - 9, last + 1)]
    found = fit_with_stops(model, Y, tmp_path / "c", stops, sample_weight=counts)
    assert_same_fit(found, undisturbed)


def test_a_default_fit_with_unknown_entries_ends_with_passes_that_lower_the_objective(X, caplog):
    Y, _ = holes(X, 0.3)
    with caplog.at_level("INFO", "somf"):
        model = DictionaryLearning(K, alpha=0.05, missing="nan", random_state=0).fit(Y)
    assert "by the codes of all samples" in caplog.text
    objectives = model.history_["training_objective"][-4:]
    assert all(later < earlier * (1 + 1e-3) for earlier, later in pairwise(objectives))
    average = DictionaryLearning(
        K, alpha=0.05, missing="nan", learning_rate=0.78, n_epochs=100, random_state=0
    )
    assert model.objective(Y) < average.fit(Y).objective(Y)
    assert model._state.memory is None
    model.partial_fit(Y)


@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_matrices_of_features_in_a_scratch_file_give_the_same_fit(
    X, tmp_path, monkeypatch, surrogate, caplog
):
    settings = TIGHT | {"missing": "nan", "reduction": 2, "surrogate": surrogate}
    Y, _ = holes(X, 0.3)
    in_memory = DictionaryLearning(K, **settings).fit(Y)
    monkeypatch.setattr("somf.scratch.SCRATCH_BYTES", 1000)
    with caplog.at_level("INFO", "somf"):
        mapped = DictionaryLearning(K, **settings).fit(Y)
    assert "scratch file" in caplog.text
    assert mapped.components_.tobytes() == in_memory.components_.tobytes()
    mapped.save(tmp_path / "m.somf", state=True)
    loaded = somf.load(tmp_path / "m.somf")
    assert isinstance(loaded._state.C_by_feature, np.memmap)
    for model in (in_memory, loaded):
        model.partial_fit(Y, sample_ids=np.arange(len(Y)))
    assert loaded.components_.tobytes() == in_memory.components_.tobytes()


def test_known_entries_are_left_and_unknown_ones_are_predicted(X, tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 30))
    Y, unknown = holes(truth, 0.4)
    model = DictionaryLearning(3, alpha=1e-4, missing="nan", random_state=0).fit(Y)
    filled = model.impute(Y)
    np.testing.assert_array_equal(filled[~unknown], truth[~unknown])
    error = np.linalg.norm((filled - truth)[unknown]) / np.linalg.norm(truth[unknown])
    assert error < 0.02
    model.impute(Y, out=tmp_path / "filled.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "filled.npy"), filled)
    sparse = DictionaryLearning(3, alpha=1e-4, missing="absent", random_state=0).fit(absent(Y))
    np.testing.assert_array_equal(sparse.impute(absent(Y))[~unknown], truth[~unknown])


def test_entries_with_little_weight_count_little(X):
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 30))
    noisy = rng.random(truth.shape) < 0.3
    Y = truth + np.where(noisy, 3.0, 0.01) * rng.standard_normal(truth.shape)
    weights = np.where(noisy, 1e-4, 1.0)
    errors = []
    for given in (None, weights):
        model = DictionaryLearning(3, alpha=1e-4, random_state=0).fit(Y, weights=given)
        U = np.linalg.qr(model.components_.T)[0]
        errors.append(np.linalg.norm(truth - truth @ U @ U.T) / np.linalg.norm(truth))
    assert errors[1] < 0.05 < errors[0]


@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_weights_of_one_change_nothing_and_those_of_zero_are_unknown_entries(X, surrogate):
    settings = TIGHT | {"surrogate": surrogate, "reduction": 2}
    Y, unknown = holes(X, 0.3)
    plain = DictionaryLearning(K, **settings, code_estimator="exact")
    for data, weights, missing in ((X, np.ones_like(X), "error"), (Y, ~unknown, "nan")):
        expected = plain.set_params(missing=missing).fit(data).components_
        filled = np.where(np.isnan(data), 0, data)
        model = DictionaryLearning(K, **settings, code_estimator="exact")
        found = model.fit(filled, weights=weights.astype(float)).components_
        np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("missing", ["error", "nan"])
@EACH_PROBLEM
def test_two_copies_of_a_sample_count_like_one_of_weight_two(X, kind, params, missing):
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 3, len(X))
    Y = holes(X, 0.2)[0] if missing == "nan" else X
    init = np.abs(X[:K])
    settings = TIGHT | params | {"surrogate": "incremental", "init": init, "missing": missing}
    settings |= {"reduction": 1, "n_epochs": 4}
    copies = np.repeat(Y, counts, axis=0)
    one = kind(K, **settings | {"batch_size": len(X)}).fit(Y, sample_weight=counts)
    two = kind(K, **settings | {"batch_size": len(copies)}).fit(copies)
    np.testing.assert_allclose(one.components_, two.components_, atol=1e-8)
    assert one.objective(Y, sample_weight=counts) == pytest.approx(two.objective(copies))
    gap = two.stationarity_gap(copies)
    assert two.stationarity_gap(Y, sample_weight=counts) == pytest.approx(gap, abs=1e-12)


def test_offsets_count_two_copies_of_a_sample_like_one_of_weight_two(X):
    Y, counts = holes(X, 0.2)[0], np.random.default_rng(0).integers(1, 3, len(X))
    settings = {"missing": "nan", "center": "both", "n_epochs": 1, "random_state": 0}
    one = DictionaryLearning(2, **settings).fit(Y, sample_weight=counts)
    two = DictionaryLearning(2, **settings).fit(np.repeat(Y, counts, axis=0))
    np.testing.assert_allclose(one.offsets_, two.offsets_)


@pytest.mark.parametrize("share", [0.2, 0.7])
@pytest.mark.parametrize("surrogate", ["online", "incremental"])
def test_a_fit_that_was_cut_off_resumes_bit_by_bit(X, tmp_path, share, surrogate):
    Y, _ = holes(X, share)
    counts = np.arange(1.0, 121.0)
    params = TIGHT | {"n_epochs": 4, "missing": "nan", "surrogate": surrogate, "reduction": "auto"}
    whole = DictionaryLearning(K, **params).fit(Y, sample_weight=counts)

    class PowerCutError(Exception):
        pass

    def cut(progress):
        if progress.n_iter == 13:
            raise PowerCutError

    path = tmp_path / "c"
    with pytest.raises(PowerCutError):
        DictionaryLearning(K, checkpoint=path, callbacks=cut, **params).fit(Y, sample_weight=counts)
    with pytest.raises(somf.errors.SomfError, match="sample_weight"):
        DictionaryLearning(K, checkpoint=path, **params).fit(Y, sample_weight=counts[::-1])
    resumed = DictionaryLearning(K, checkpoint=path, **params).fit(Y, sample_weight=counts)
    assert resumed.components_.tobytes() == whole.components_.tobytes()


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_model_that_was_saved_continues_to_learn(X, tmp_path, share):
    Y, _ = holes(X, share)
    model = DictionaryLearning(K, missing="nan", **TIGHT).partial_fit(Y[:60])
    model.save(tmp_path / "m.somf", state=True)
    again = somf.load(tmp_path / "m.somf")
    other = holes(X, 0.9 - share, seed=1)[0][60:]
    for each in (model, again):
        each.partial_fit(other, sample_weight=np.ones(60))
    assert again.components_.tobytes() == model.components_.tobytes()
    with pytest.raises(ParameterError, match="weights"):
        again.set_params(missing="error").partial_fit(X)


@NEEDS_CUDA
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_gpu_and_the_cpu_learn_the_same_from_what_is_known(X, share):
    Y, _ = holes(X[:12, :8], share)
    params = {"batch_size": 6, "n_epochs": 1, "reduction": 2, "code_tol": 0.0, "random_state": 0}
    found = [
        DictionaryLearning(2, missing="nan", device=device, **params).fit(Y).components_
        for device in ("cpu", "cuda")
    ]
    # An atom may have nothing but a rounding error left for the rows of a mask: for their squares.
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)


@NEEDS_CUDA
@pytest.mark.parametrize("missing", ["error", "nan"])
def test_a_gpu_and_the_cpu_have_the_same_penalties(X, missing):
    Y = holes(X[:12, :8], 0.7)[0] if missing == "nan" else X[:12, :8]
    params = RIDGE | {"batch_size": 6, "n_epochs": 2, "reduction": 1, "random_state": 0}
    params |= {"missing": missing, "alpha_per": "entry" if missing == "nan" else "sample"}
    cpu, gpu = (
        MatrixFactorization(2, device=device, **params).fit(Y) for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(gpu.components_, cpu.components_, atol=1e-9)
    assert gpu.objective(Y) == pytest.approx(cpu.objective(Y))
    assert gpu.stationarity_gap(Y) == pytest.approx(cpu.stationarity_gap(Y), rel=1e-6)


def test_single_precision_stays(X):
    Y = holes(X, 0.3)[0].astype(np.float32)
    model = DictionaryLearning(K, missing="nan", **TIGHT).fit(Y, sample_weight=np.ones(120))
    assert model.components_.dtype == np.float32
    assert model.impute(Y).dtype == np.float32
    assert model._state.C_by_feature.dtype == np.float32


def test_the_weight_for_a_density_is_found_on_what_is_known(X):
    Y, _ = holes(X, 0.3)
    model = DictionaryLearning(
        8, alpha="auto", code_density=0.3, missing="nan", n_epochs=3, random_state=0
    ).fit(Y)
    assert np.mean(model.transform(Y) != 0) == pytest.approx(0.3, rel=0.3)


def test_a_sparse_matrix_is_never_made_dense():
    rng = np.random.default_rng(0)
    n, p = 400, 50_000
    columns = rng.integers(p, size=(n, 10))
    ratings = sp.csr_array(
        (rng.random(10 * n), (np.repeat(np.arange(n), 10), columns.ravel())), (n, p)
    )
    model = DictionaryLearning(2, missing="absent", batch_size=n, n_epochs=1, random_state=0)
    tracemalloc.start()
    model.fit(ratings)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n * p * 8 / 2  # half of a dense minibatch


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda X: DictionaryLearning(2, missing="zero").fit(X), ParameterError, "missing"),
        (lambda X: DictionaryLearning(2).fit(holes(X, 0.1)[0]), NotFiniteError, "NaN"),
        (lambda X: DictionaryLearning(2, missing="absent").fit(X), DataError, "use 'nan'"),
        (
            lambda X: DictionaryLearning(2, missing="nan").fit(sp.csr_array(X)),
            DataError,
            "use 'absent'",
        ),
        (
            lambda X: DictionaryLearning(2, missing="nan").fit(np.where(X.mean() < X, np.inf, X)),
            NotFiniteError,
            "infinity",
        ),
        (lambda X: DictionaryLearning(2).fit(X, weights=X[:5]), DataError, "shape"),
        (lambda X: DictionaryLearning(2).fit(X, weights=-X), DataError, "negative"),
        (lambda X: DictionaryLearning(2).fit(X, weights=sp.csr_array(X)), DataError, "dense"),
        (
            lambda X: DictionaryLearning(2).fit(sp.csr_array(X), weights=sp.csr_array(X)),
            DataError,
            "absent",
        ),
        (
            lambda X: DictionaryLearning(2, missing="absent").fit(
                sp.csr_array(X), weights=sp.csr_array(np.where(X > 0.1, X, 0))
            ),
            DataError,
            "same entries",
        ),
        (lambda X: DictionaryLearning(2).fit(X, sample_weight=[1, 2]), ParameterError, "entry per"),
        (
            lambda X: DictionaryLearning(2).fit(X, sample_weight=-np.ones(120)),
            ParameterError,
            "not negative",
        ),
        (lambda X: DictionaryLearning(2).fit(X).impute(X), ParameterError, "to impute"),
    ],
)
def test_what_does_not_fit_together_is_an_error(X, call, error, message):
    with pytest.raises(error, match=message):
        call(X)


@pytest.mark.parametrize("init", ["random", "array"])
@pytest.mark.parametrize("missing", ["nan", "absent"])
def test_features_that_are_never_known_take_nothing_from_the_ball(X, init, missing):
    Y = holes(X, 0.2)[0]
    Y[:, [3, 11]] = np.nan
    init = np.random.default_rng(0).random((K, 24)) if init == "array" else init
    model = DictionaryLearning(K, missing=missing, init=init, n_epochs=3, random_state=0)
    model.fit(Y if missing == "nan" else absent(Y))
    assert not model.components_[:, [3, 11]].any()
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)


def test_weights_may_come_and_go_while_learning_continues(X):
    Y, _ = holes(X, 0.2)
    model, always = (DictionaryLearning(K, missing="nan", **TIGHT) for _ in range(2))
    model.partial_fit(Y)
    always.partial_fit(Y)
    model.partial_fit(Y, weights=np.ones_like(X))
    always.partial_fit(Y)
    np.testing.assert_allclose(model.components_, always.components_, atol=1e-9)


@pytest.mark.parametrize("dropped", ["weights", "sample_weight"])
def test_a_checkpoint_of_a_fit_with_weights_is_not_one_without(X, tmp_path, dropped):
    given = {"weights": np.full_like(X, 2.0), "sample_weight": np.arange(1.0, 121.0)}[dropped]
    model = DictionaryLearning(K, checkpoint=tmp_path / "c", **TIGHT)
    model.fit(X, **{dropped: given})
    with pytest.raises(somf.errors.SomfError, match=f"X .{dropped}"):
        model.fit(X)


def test_codes_of_weighted_entries_are_those_that_the_objective_has(X):
    weights = np.random.default_rng(0).random(X.shape)
    model = DictionaryLearning(K, alpha=0.05, **TIGHT)
    codes = model.fit_transform(X, weights=weights)
    np.testing.assert_array_equal(codes, model.transform(X, weights=weights))
    left = weights * (X - codes @ model.components_) ** 2
    value = left.sum(axis=1) / 2 + 0.05 * np.abs(codes).sum(axis=1)
    assert value.mean() == pytest.approx(model.objective(X, weights=weights), rel=1e-5)
    assert model.measure(X, weights=weights).objective == pytest.approx(value.mean(), rel=1e-5)


def test_samples_of_weight_zero_are_left_out(X):
    wrong = np.concatenate([X, 1e3 * np.random.default_rng(0).random((60, 24))])
    counts = np.repeat([1.0, 0.0], [120, 60])
    model = DictionaryLearning(K, alpha="auto", **TIGHT).fit(wrong, sample_weight=counts)
    same = DictionaryLearning(K, alpha="auto", **TIGHT).fit(X)
    assert model.alpha_ == pytest.approx(same.alpha_, rel=0.2)
    assert model.objective(X) < 1.3 * same.objective(X)
    assert model.n_samples_seen_ == same.n_samples_seen_


def test_known_entries_keep_their_precision(X):
    Y, unknown = holes(X, 0.2)
    model = DictionaryLearning(K, missing="nan", dtype="float32", **TIGHT).fit(Y)
    filled = model.impute(Y)
    assert filled.dtype == np.float64
    np.testing.assert_array_equal(filled[~unknown], X[~unknown])


def test_sparse_samples_are_imputed_a_bounded_number_at_a_time(monkeypatch):
    monkeypatch.setattr("somf.data.loader.CHUNK_ENTRIES", 5000)
    X = random_csr(300, 1000, 0.01)
    model = DictionaryLearning(2, missing="absent", n_epochs=1, random_state=0).fit(X)
    sizes = []

    class Rows:
        shape, dtype = (300, 1000), np.dtype(np.float64)

        def __setitem__(self, rows, values):
            sizes.append(len(values))

    model.impute(X, out=Rows())
    assert max(sizes) == 5
    assert sum(sizes) == 300


def test_halves_of_the_data_have_the_stationarity_gap_of_all(X):
    from somf.inference.stationarity import Gradient

    Y, _ = holes(X, 0.2)
    model = DictionaryLearning(K, missing="nan", **TIGHT).fit(Y)
    with model._coding(model._source(Y), 1e-12) as (coder, chunks):
        (chunk,) = chunks
        whole, half = Gradient(coder), Gradient(coder)
        whole.add(chunk)

        class Twice:
            def any(self, flag):
                return True

            def sum(self, *arrays):
                return tuple(2 * array for array in arrays)

            def total(self, number):
                return (2 * number,)

        half.add(chunk)
        half.add_ranks(Twice())
        ball = model._config().ball
        assert half.stationarity_gap(ball) == pytest.approx(whole.stationarity_gap(ball))


def test_averaged_codes_of_blocks_are_close_to_those_without_the_option(X):
    params = TIGHT | {"reduction": 2, "code_estimator": "averaged", "n_epochs": 4}
    plain = DictionaryLearning(K, **params).fit(X)
    model = DictionaryLearning(K, missing="nan", **params).fit(X)
    assert model.objective(X) == pytest.approx(plain.objective(X), rel=0.05)


def test_what_pandas_calls_missing_is_unknown(X):
    pandas = pytest.importorskip("pandas", reason="data frames come with pandas")
    Y = np.round(10 * X) + np.arange(24)
    Y[::7, 3] = np.nan
    frame = pandas.DataFrame(Y, columns=[f"f{j}" for j in range(24)]).convert_dtypes()
    model = DictionaryLearning(K, missing="nan", **TIGHT).fit(frame)
    same = DictionaryLearning(K, missing="nan", **TIGHT).fit(Y)
    np.testing.assert_array_equal(model.components_, same.components_)
    with pytest.raises(NotFiniteError, match="NaN"):
        DictionaryLearning(K).fit(frame)


def als_objective(X, known, codes, D, weight):
    """Return Σ ½ (x − dᵀα)² + ρ‖d‖² over known entries, plus λ‖α‖² of every sample; a mean."""
    left = known * ((X - codes @ D.T) ** 2 / 2 + RIDGE["atom_alpha"] * (D**2).sum(axis=1))
    of_samples = left.sum(axis=1) + RIDGE["alpha"] * (codes**2).sum(axis=1)
    return weight @ of_samples / weight.sum()


@pytest.mark.parametrize("share", [0.0, 0.2, 0.7])
def test_a_penalty_on_atoms_is_part_of_the_objective(X, share):
    Y, unknown = holes(X, share)
    model = MatrixFactorization(2, missing="nan" if share else "error", **TIGHT, **RIDGE).fit(Y)
    weight = np.arange(1.0, 121.0)
    expected = als_objective(X, ~unknown, model.transform(Y), model.components_.T, weight)
    assert model.objective(Y, sample_weight=weight) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.7])
def test_with_a_penalty_on_atoms_a_fit_is_stationary_for_alternating_least_squares(X, share):
    Y, unknown = holes(X, share)
    settings = TIGHT | {"n_epochs": 300, "batch_size": 40, "reduction": 1, "code_tol": 1e-14}
    model = MatrixFactorization(2, missing="nan" if share else "error", **settings, **RIDGE)
    assert model.fit(Y).stationarity_gap(Y) < 1e-8
    D, codes = model.components_.T, model.transform(Y)
    assert (np.linalg.norm(D, axis=0) < 0.9).all()  # far inside of the ball
    for f in range(24):
        A = codes[~unknown[:, f]]
        C = A.T @ A + 2 * RIDGE["atom_alpha"] * len(A) * np.eye(2)
        np.testing.assert_allclose(D[f], np.linalg.solve(C, A.T @ X[~unknown[:, f], f]), atol=1e-4)


def test_a_penalty_on_atoms_lets_those_vanish_that_are_not_needed():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 30))
    Y, _ = holes(truth + 0.5 * rng.standard_normal(truth.shape), 0.5)
    settings = {"l1_ratio": 0.0, "missing": "nan", "init": "random", "surrogate": "incremental"}
    third = []
    for penalty in ({"alpha": 0.1}, {"alpha": 0.003, "atom_alpha": 60.0}):
        model = MatrixFactorization(8, n_epochs=40, random_state=0, **settings, **penalty).fit(Y)
        sizes = np.linalg.svd(model.transform(Y) @ model.components_)[1]
        third.append(sizes[2] / sizes[1])
    assert third[1] < 0.02
    assert third[0] > 0.1


def test_a_fit_with_a_penalty_on_atoms_resumes_bit_by_bit(X, tmp_path):
    Y, _ = holes(X, 0.3)
    params = TIGHT | RIDGE | {"missing": "nan", "n_epochs": 4}
    whole = MatrixFactorization(K, **params).fit(Y)
    stops = MatrixFactorization(
        K, checkpoint=tmp_path / "c", callbacks=lambda progress: progress.n_iter == 13, **params
    )
    stops.fit(Y)
    resumed = MatrixFactorization(K, checkpoint=tmp_path / "c", **params).fit(Y)
    assert resumed.components_.tobytes() == whole.components_.tobytes()


def test_a_sample_may_come_again_with_another_weight(X):
    params = TIGHT | {"surrogate": "incremental", "missing": "nan", "batch_size": 120}
    ids, weight = np.arange(120), np.arange(1.0, 121.0)
    again = DictionaryLearning(K, **params)
    again.partial_fit(X, sample_ids=ids).partial_fit(X, sample_ids=ids, sample_weight=weight)
    state = again._state
    order = slice(None) if state.permutation is None else state.permutation
    expected = X.T @ (weight[:, None] * state.memory.code[:120])
    np.testing.assert_allclose(state.B, expected[order], atol=1e-8)


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_penalty_per_entry_is_that_of_weights_over_counts(X, share):
    Y, unknown = holes(X, share)
    counts = (~unknown).sum(axis=1)
    weights = np.repeat(1 / counts[:, None], 24, axis=1)
    settings = TIGHT | {"l1_ratio": 0.5, "missing": "nan", "surrogate": "incremental"}
    settings |= {"reduction": 1, "batch_size": 120, "init": X[:K]}
    model = MatrixFactorization(K, alpha=0.01, alpha_per="entry", **settings).fit(Y)
    same = MatrixFactorization(K, alpha=0.01, **settings)
    same.fit(Y, weights=weights, sample_weight=counts)
    np.testing.assert_allclose(model.components_, same.components_, atol=1e-7)
    codes = model.transform(Y)
    np.testing.assert_allclose(codes, same.transform(Y, weights=weights), atol=1e-4)
    left = np.where(unknown, 0, X - codes @ model.components_)
    penalty = 0.005 * (np.abs(codes).sum(axis=1) + (codes**2).sum(axis=1))
    value = (left**2).sum(axis=1) / 2 + counts * penalty
    assert model.objective(Y) == pytest.approx(value.mean(), rel=1e-6)
    assert model.history_["training_objective"][-1] > 0


def test_an_atom_whose_multiplier_changes_by_rounding_alone_is_finite():
    X = np.abs(planted(600, 300, 10, density=0.3, noise=0.1, seed=2)[0])
    data, _ = holes(X, 0.7, seed=2)
    settings = {"learning_rate": 0.78, "n_epochs": 2, "tol": 0, "n_threads": 1, "random_state": 2}
    model = DictionaryLearning(10, alpha=0.1, missing="nan", **settings).fit(data)
    assert np.isfinite(model.components_).all()


def test_sums_of_a_pass_that_overflow_are_reported():
    rng = np.random.default_rng(0)
    code = rng.standard_normal((80, 6)) * (rng.random((80, 6)) < 0.5)
    X = np.abs(code @ rng.standard_normal((6, 20)) + 0.1 * rng.standard_normal((80, 20)))
    data, _ = holes(X * 1e18, 0.3)
    model = SparsePCA(6, missing="nan", n_epochs=10, random_state=0)
    with np.errstate(all="ignore"), pytest.raises(ScaleError, match="overflows"):
        model.fit(data.astype(np.float32))
