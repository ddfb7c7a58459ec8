"""What a checkpoint costs: its size, and the time to write and to read it.

    python -m benchmarks.checkpoints [--folder scratch]

A checkpoint is the model with its state, in one file that is flushed to the disk. There are two
cases: after an epoch over Indian Pines, and with the statistics of 5.1 million samples (k = 100,
r = 4, few features), which are written as if all samples had been visited.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import write_results
from benchmarks.scaling import Repeated
from benchmarks.scenes import indian_pines
from benchmarks.settings import ONE_EPOCH, PAPER
from benchmarks.summaries import timed
from somf import DictionaryLearning, MatrixFactorization, load
from somf.callbacks import Progress

N_SAMPLES = 5_090_475
"""Samples of the large case, as many as `benchmarks.terabyte` has."""

N_FEATURES = 1_000
"""Features of the large case."""

N_REPEATS = 3
"""Times that a file is written and read."""


def after_an_epoch() -> MatrixFactorization:
    """Return a model after one epoch over Indian Pines."""
    model = DictionaryLearning(
        100, reduction=4, batch_size=50, **PAPER, **ONE_EPOCH, random_state=0
    )
    return model.fit(indian_pines()[0])


def of_many_samples() -> MatrixFactorization:
    """Return a model with statistics of five million samples."""

    def is_over(progress: Progress) -> bool:
        return progress.n_iter == 10

    model = DictionaryLearning(
        100, reduction=4, batch_size=50, **PAPER, **ONE_EPOCH, callbacks=is_over, random_state=0
    )
    return model.fit(Repeated(N_SAMPLES, N_FEATURES))


def measure(model: MatrixFactorization, path: Path) -> dict[str, Any]:
    """Return megabytes, and the median seconds of writing and reading."""
    writing, reading = [], []
    for _ in range(N_REPEATS):
        writing.append(timed(partial(model.save, path, state=True)))
        reading.append(timed(partial(load, path)))
    size = path.stat().st_size
    path.unlink()
    return {"MB": size / 1e6, "writing": median(writing), "reading": median(reading)}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where to put files (default: a temporary one)")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/checkpoints.json"))
    options = parser.parse_args()
    cases = {
        "11,700 samples, 51,200 features, 100 atoms, float32": after_an_epoch,
        "statistics of 5.1 million samples, 100 atoms, `reduction=4`": of_many_samples,
    }
    result: dict[str, Any] = {"cases": {}}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name, make in cases.items():
            result["cases"][name] = measure(make(), Path(folder) / "model.somf")
            print(name, result["cases"][name], flush=True)
    write_results(options.output, result)


if __name__ == "__main__":
    main()
