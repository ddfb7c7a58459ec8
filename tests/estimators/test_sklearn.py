"""The manners that scikit-learn expects."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from somf import NMF, DictionaryLearning, MatrixFactorization, SparsePCA

ESTIMATORS = [MatrixFactorization, DictionaryLearning, SparsePCA, NMF]


def not_expected(estimator):
    """Name the checks that no online algorithm passes: an order of samples depends on their number.

    `test_missing` has a test of what they stand for.
    """
    reason = "a minibatch with two copies of a sample is another one than with one of weight two"
    kinds = ("dense", "sparse")
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in kinds}


# Some checks fit NMF to data with negative entries, which it warns about, rightly.
@pytest.mark.filterwarnings("ignore:X has negative entries")
@parametrize_with_checks(
    [kind(5, random_state=0) for kind in ESTIMATORS], expected_failed_checks=not_expected
)
def test_scikit_learn_finds_nothing_to_complain_about(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_fit_leaves_the_parameters_untouched(kind, toy):
    init = np.abs(toy[:6]) + 1
    kept = init.copy()
    model = kind(6, init=init, reduction=100, callbacks=[print], dtype="float32", random_state=0)
    model.set_params(callbacks=())
    before = dict(model.get_params())
    model.fit(np.abs(toy))
    after = model.get_params()
    assert all(after[name] is value for name, value in before.items())
    np.testing.assert_array_equal(init, kept)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_clone_has_the_same_parameters_and_has_learned_nothing(kind, toy):
    model = kind(6, alpha=0.3, reduction=2.5, random_state=3).fit(np.abs(toy))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "components_")
    np.testing.assert_array_equal(copy.fit(np.abs(toy)).components_, model.components_)


def test_the_named_problems_fix_what_their_name_says():
    def settings(model):
        config = model._config()
        return (
            config.penalty.l1_ratio,
            config.ball.l1_ratio,
            config.penalty.positive,
            config.ball.positive,
        )

    assert settings(DictionaryLearning()) == (1, 0, False, False)
    assert settings(SparsePCA()) == (0, 1, False, False)
    assert settings(NMF()) == (1, 0, True, True)
    assert "l1_ratio" not in DictionaryLearning().get_params()
    assert "positive_code" not in NMF().get_params()


def test_a_pickled_model_continues_like_the_original(toy):
    model = DictionaryLearning(6, reduction=2, random_state=0).fit(toy)
    copy = pickle.loads(pickle.dumps(model))
    for each in (model, copy):
        each.partial_fit(toy[:50], sample_ids=np.arange(50))
    np.testing.assert_array_equal(copy.components_, model.components_)


def test_set_output_gives_named_columns(toy):
    frame = DictionaryLearning(4, random_state=0).set_output(transform="pandas").fit_transform(toy)
    assert list(frame.columns) == [f"dictionarylearning{i}" for i in range(4)]


def test_names_of_features_are_checked(toy):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(toy, columns=[f"band {i}" for i in range(60)])
    model = DictionaryLearning(4, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[frame.columns[::-1]])


def test_it_works_in_pipelines_and_grid_search(toy):
    pipeline = make_pipeline(
        StandardScaler(), DictionaryLearning(4, random_state=0), StandardScaler()
    )
    assert pipeline.fit_transform(toy).shape == (300, 4)
    search = GridSearchCV(
        DictionaryLearning(random_state=0), {"n_components": [2, 8]}, cv=2, n_jobs=1
    )
    assert search.fit(toy).best_params_ == {"n_components": 8}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_notebooks_show_an_estimator_as_html(kind, toy):
    model = kind(3, random_state=0)
    fresh, fitted = model._repr_html_(), model.fit(np.abs(toy))._repr_html_()
    for html in (fresh, fitted):
        assert kind.__name__ in html
        assert "n_components" in html
    assert "Not fitted" in fresh
    assert "Not fitted" not in fitted


def test_a_column_may_have_the_name_of_an_attribute(toy):
    pandas = pytest.importorskip("pandas")
    names = ["dtype", "shape", *(f"band {i}" for i in range(58))]
    frame = pandas.DataFrame(toy, columns=names)
    model = DictionaryLearning(4, random_state=0).fit(frame)
    same = DictionaryLearning(4, random_state=0).fit(toy)
    np.testing.assert_array_equal(model.components_, same.components_)
