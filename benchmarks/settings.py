"""Parameters of fits that shall not depend on defaults, so that results of all times compare."""

from typing import Any

ONE_EPOCH: dict[str, Any] = {"n_epochs": 1, "tol": 0.0}
"""Exactly one pass over the data."""

PAPER_WEIGHTS: dict[str, Any] = {"learning_rate": 0.92}
"""Weights t^−v of samples with the v of all benchmarks of the paper's algorithms."""

PAPER: dict[str, Any] = {"code_estimator": "averaged"} | PAPER_WEIGHTS
"""The paper's algorithm; the reduction is the caller's."""
