"""Find the topics of docstrings.

The documents are the docstrings of NumPy, SciPy, scikit-learn and the standard library: several
thousand short texts that are already installed. Their word weights are a sparse matrix, which is
never made dense. A topic is an atom: words that occur together.

    python examples/topics.py --output demo
"""

import argparse
import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy
import sklearn
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer
from sklearn.preprocessing import normalize

from somf import NMF
from somf.inference.usage import usage_of

PACKAGES = (Path(ast.__file__).parent, *(Path(p.__file__).parent for p in (np, scipy, sklearn)))
"""The folders whose docstrings are read."""

SKIPPED = {"tests", "test", "site-packages", "_vendor", "externals", "idlelib", "lib2to3"}
"""Folders whose docstrings are not read."""

N_WORDS = 8
"""Words that are shown of a topic."""

N_DRAWN = 12
"""Topics that are drawn."""

BOILERPLATE = """
    return returns returned parameters parameter default optional array array_like ndarray shape
    int float bool str none true false type types value values object objects given used use
    using specified set examples example notes see also attributes self code len import np print
    method function functions class instance argument arguments test tests versionadded new
"""
"""Words of all docstrings, which tell nothing about a topic."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Collect texts, learn topics, print and draw their words."""
    options = parse_options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    per_package = -(-options.documents // len(PACKAGES))
    texts = [text for package in PACKAGES for text in docstrings(package, per_package)]
    vectorizer = TfidfVectorizer(
        min_df=5,
        max_df=0.2,
        sublinear_tf=True,
        token_pattern=r"(?u)\b[a-z]{3,}\b",
        stop_words=[*ENGLISH_STOP_WORDS, *BOILERPLATE.split()],
        dtype=np.float32,
    )
    X = vectorizer.fit_transform(texts)
    X = normalize(X[X.getnnz(axis=1) > 0])
    filled = X.nnz / np.prod(X.shape)
    print(f"{X.shape[0]} texts, {X.shape[1]} words, {filled:.2%} of the matrix is not zero")

    model = NMF(options.components, alpha=0.05, n_epochs=options.epochs, random_state=0)
    found = usage_of(model.fit(X).transform(X, sparse=True))
    words = vectorizer.get_feature_names_out()
    topics = [
        (found.usage[j], [(words[i], model.components_[j, i]) for i in largest])
        for j in found.order[: options.components - found.n_unused]
        for largest in [np.argsort(-model.components_[j])[:N_WORDS]]
    ]
    for usage, weights in topics:
        print(f"{usage:5.1%}  {', '.join(word for word, _ in weights)}")
    figure = draw(topics[:N_DRAWN])
    figure.savefig(options.output / "topics.png", dpi=110)
    plt.close(figure)
    print(f"In {options.output}: topics.png")


def draw(topics: list[tuple[float, list[tuple[str, float]]]]) -> Figure:
    """Draw the weights of the words of each topic as bars."""
    n_columns = min(4, len(topics))
    n_rows = -(-len(topics) // n_columns)
    figure = plt.figure(figsize=(11, 2.3 * n_rows), layout="constrained")
    figure.suptitle("Topics, most used first, and the share of texts that use them")
    for place, (usage, weights) in enumerate(topics, start=1):
        ax = figure.add_subplot(n_rows, n_columns, place)
        ax.barh([word for word, _ in weights], [weight for _, weight in weights], alpha=0.6)
        ax.invert_yaxis()
        ax.set_title(f"{usage:.1%}", fontsize="medium")
        ax.set_xticks([])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    return figure


def docstrings(folder: Path, n_most: int, n_characters: int = 200) -> Iterator[str]:
    """Yield the docstrings of a package that have at least `n_characters`."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    n_found = 0
    for path in sorted(folder.rglob("*.py")):
        if SKIPPED & set(path.relative_to(folder).parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            text = ast.get_docstring(node) if isinstance(node, kinds) else None
            if text and len(text) >= n_characters:
                yield text.lower()
                n_found += 1
                if n_found == n_most:
                    return


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write to")
    parser.add_argument("--documents", type=int, default=8000, help="texts to read, at most")
    parser.add_argument("--components", type=int, default=30, help="number of topics")
    parser.add_argument("--epochs", type=int, default=100, help="passes over the texts, at most")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
