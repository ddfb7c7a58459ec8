"""Find the topics of a library: what the docstrings of Python and its packages are about.

The documents are the docstrings of NumPy, SciPy, scikit-learn and the standard library: some
thousand short texts that are on this machine already. Their word weights are a sparse matrix, which
is never made dense; a topic is an atom of it, a list of words that occur together.

    python examples/topics.py --output demo
"""

import argparse
import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy
import sklearn
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer
from sklearn.preprocessing import normalize

from somf import NMF

PACKAGES = (Path(ast.__file__).parent, *(Path(p.__file__).parent for p in (np, scipy, sklearn)))
SKIPPED = {"tests", "test", "site-packages", "_vendor", "externals", "idlelib", "lib2to3"}
BOILERPLATE = """
    return returns returned parameters parameter default optional array array_like ndarray shape
    int float bool str none true false type types value values object objects given used use
    using specified set examples example notes see also attributes self code len import np print
    method function functions class instance argument arguments test tests versionadded new
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Collect texts, learn topics, print their words."""
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

    model = NMF(
        options.components, alpha=0.05, reduction=2, n_epochs=options.epochs, random_state=0
    )
    codes = model.fit(X).transform(X, sparse=True)
    usage = np.asarray((codes != 0).mean(axis=0))
    words = vectorizer.get_feature_names_out()
    lines = [
        f"{usage[j]:5.1%}  {', '.join(words[np.argsort(-model.components_[j])[:8]])}"
        for j in np.argsort(-usage)
        if usage[j] > 0
    ]
    print("\n".join(lines))
    (options.output / "topics.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"In {options.output}: topics.txt")


def docstrings(folder: Path, n_most: int, n_characters: int = 200) -> Iterator[str]:
    """Yield the docstrings of a package that are long enough to be about something."""
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
    parser.add_argument("--epochs", type=int, default=10, help="passes over the texts")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
