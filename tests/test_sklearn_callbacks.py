"""Callbacks of scikit-learn hear of every part of a fit, and may end it."""

import sys

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from somf import DictionaryLearning
from somf.sklearn_callbacks import MOST_PARTS

pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")


class Witness:
    """Writes down what it hears."""

    def __init__(self, n_most=None):
        self.heard, self.objectives, self.contexts, self.n_most = [], [], [], n_most

    def setup(self, estimator, context):
        self.heard.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.heard.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        self.heard.append(f"end {context.task_name}")
        self.contexts.append(context)
        self.objectives.append(fitted_estimator.objective(X))
        return self.n_most is not None and self.heard.count("end minibatches") >= self.n_most

    def teardown(self, estimator, context):
        self.heard.append("teardown")


class Everywhere(Witness):
    max_propagation_depth = None

    def on_fit_task_end(self, estimator, context):
        self.heard.append(f"end {context.estimator_name}")


def model(**params):
    return DictionaryLearning(5, reduction=1, batch_size=50, random_state=0, **params)


def test_a_fit_is_a_task_with_a_part_for_each_minibatch(toy):
    witness = Witness()
    fitted = model(n_epochs=2).set_callbacks(witness).fit(toy)
    part = ["begin minibatches", "end minibatches"]
    assert witness.heard == ["setup", "begin fit", *12 * part, "end fit", "teardown"]
    assert witness.contexts[-1].max_subtasks == 12
    assert witness.objectives[-2] == pytest.approx(fitted.objective(toy))
    assert witness.objectives[-1] < witness.objectives[0]


def test_a_callback_changes_nothing_unless_it_ends_the_fit(toy):
    plain = model().fit(toy)
    followed = model().set_callbacks(Witness()).fit(toy)
    ended = model().set_callbacks(Witness(n_most=2)).fit(toy)
    np.testing.assert_array_equal(followed.components_, plain.components_)
    assert plain.n_iter_ == 6
    assert ended.n_iter_ == 2


def test_a_fit_that_another_callback_ends_is_over_for_these_too(toy):
    witness = Witness()
    model(callbacks=lambda progress: progress.n_iter == 3).set_callbacks(witness).fit(toy)
    begun, ended = (
        [word.split()[1] for word in witness.heard if word.startswith(kind)]
        for kind in ("begin", "end")
    )
    assert sorted(begun) == sorted(ended)


def test_a_fit_that_fails_is_torn_down(toy):
    def fail(progress):
        raise RuntimeError("on purpose")

    witness = Witness()
    with pytest.raises(RuntimeError, match="on purpose"):
        model(callbacks=fail).set_callbacks(witness).fit(toy)
    assert witness.heard[-1] == "teardown"
    assert "end fit" not in witness.heard


def test_very_many_minibatches_are_not_as_many_parts(toy):
    witness = Everywhere()
    model(n_epochs=5).set_params(batch_size=1).set_callbacks(witness).fit(toy)
    assert witness.heard.count("end DictionaryLearning") - 1 == 750 <= MOST_PARTS


def test_callbacks_come_through_searches_and_pipelines(toy):
    witness = Everywhere()
    pipeline = make_pipeline(StandardScaler(), model())
    search = GridSearchCV(pipeline, {"dictionarylearning__alpha": [0.1, 0.2]}, cv=2)
    search.set_callbacks(witness).fit(toy)
    assert "end DictionaryLearning" in witness.heard
    assert witness.heard.count("setup") == witness.heard.count("teardown") == 1


def test_the_progress_bar_of_scikit_learn_reaches_its_end(toy, capsys):
    pytest.importorskip("rich", reason="the progress bar needs rich")
    from sklearn.callback import ProgressBar

    model().set_callbacks(ProgressBar()).fit(toy)
    output = capsys.readouterr().out
    assert "DictionaryLearning - fit" in output
    assert "100%" in output


def test_an_older_scikit_learn_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    with pytest.raises(ImportError, match=r"scikit-learn 1\.9"):
        model().set_callbacks(Witness())
