"""Every estimator documents what it takes, from one place."""

import inspect

import pytest

import somf
from somf.estimators.parameters import PARAMETERS, describe_parameters

ESTIMATORS = [somf.MatrixFactorization, somf.DictionaryLearning, somf.SparsePCA, somf.NMF]


@pytest.mark.skipif(not __debug__, reason="python -OO has no docstrings")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_an_estimator_documents_exactly_its_own_parameters_with_their_defaults(estimator):
    doc = pytest.importorskip("numpydoc.docscrape").ClassDoc(estimator)
    described = {entry.name: entry for entry in doc["Parameters"]}
    signature = inspect.signature(estimator).parameters
    assert list(described) == list(signature)
    for name, entry in described.items():
        default = signature[name].default
        shown = f'"{default}"' if isinstance(default, str) else repr(default)
        assert entry.type.endswith("optional" if default is None else f"default={shown}")
        assert entry.desc
    assert "components_" in {entry.name for entry in doc["Attributes"]}
    assert doc["Examples"]


def test_a_class_may_describe_a_parameter_in_its_own_words():
    class Estimator:
        """Do something.

        Parameters
        ----------
        alpha : float
            Meant otherwise.

        Examples
        --------
        >>> Estimator()
        """

        def __init__(self, tol=0.5, alpha=1):
            pass

    doc = describe_parameters(Estimator).__doc__
    assert doc.startswith("Do something.\n\nParameters\n----------\ntol : float, default=0.5\n")
    assert "alpha : float, default=1\n    Meant otherwise.\n\nAttributes\n" in doc
    assert doc.endswith("Examples\n--------\n>>> Estimator()\n")


def test_without_docstrings_nothing_is_described():
    class Estimator:
        pass

    assert describe_parameters(Estimator).__doc__ is None


def test_no_description_is_left_over():
    names = [line.split(" : ")[0] for line in PARAMETERS.splitlines() if line[0] != " "]
    assert names == list(inspect.signature(somf.MatrixFactorization).parameters)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_a_typo_names_the_class_and_the_nearest_parameter(estimator):
    message = rf"{estimator.__name__}\(\) got an unexpected keyword argument 'n_component'"
    with pytest.raises(TypeError, match=message + r"\. Did you mean 'n_components'\?"):
        estimator(n_component=3)
