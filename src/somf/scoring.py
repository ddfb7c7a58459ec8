"""Scores for scikit-learn's model selection: ``GridSearchCV(…, scoring=ExplainedVariance(5))``.

`MatrixFactorization.score` is minus the objective, which holds the penalty: a search over `alpha`
always prefers the smallest. Errors alone prefer it, too, since codes get denser. Models with
different λ can be compared if all of them may use the same number of atoms per sample.
"""

from dataclasses import dataclass
from typing import Any

from sklearn.pipeline import Pipeline

from somf.errors import ParameterTypeError
from somf.estimators.base import MatrixFactorization


@dataclass(frozen=True)
class ExplainedVariance:
    """The explained variance of held-out samples; higher is better, 1 is perfect.

    Parameters
    ----------
    max_atoms : int, optional
        Atoms that each sample may use, chosen by orthogonal matching pursuit, so that models with
        different `alpha` are compared at the same density. By default codes are those of
        `transform`: compare only models of about the same density, such as those with
        ``alpha="auto"`` and the same `code_density`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from somf import DictionaryLearning
    >>> from somf.scoring import ExplainedVariance
    >>> X = np.random.default_rng(0).standard_normal((60, 10))
    >>> model = DictionaryLearning(5, n_epochs=2, random_state=0)
    >>> search = GridSearchCV(model, {"alpha": [0.3, 1.0]}, scoring=ExplainedVariance(2), cv=2)
    >>> search.fit(X).best_score_ < 1
    True
    """

    max_atoms: int | None = None

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:  # noqa: ARG002 (scikit-learn)
        """Return the score of a fitted estimator, or of a pipeline that ends with one, on X."""
        if isinstance(estimator, Pipeline):
            X = estimator[:-1].transform(X) if len(estimator) > 1 else X
            estimator = estimator[-1]
        if not isinstance(estimator, MatrixFactorization):
            rule = "be an estimator of somf, or a pipeline that ends with one"
            raise ParameterTypeError("estimator", rule, estimator)
        return estimator.explained_variance(X, max_atoms=self.max_atoms)
