"""What it costs to write down where a fit is, and to go on from there.

    python -m benchmarks.checkpoints [--folder scratch]

A checkpoint is the model with its state, in one file that is brought to the disk. Two of them:
after an epoch over Indian Pines, and of statistics of 5.1 million samples (k = 100, r = 4, few
features), which are written as if all of them had been seen.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.machine import facts
from benchmarks.scaling import Repeated
from benchmarks.scenes import indian_pines
from somf import DictionaryLearning, MatrixFactorization, load
from somf.callbacks import Progress

N_SAMPLES, N_FEATURES = 5_090_475, 1_000
N_REPEATS = 3


def after_an_epoch() -> MatrixFactorization:
    """Return a model that has seen all of Indian Pines."""
    return DictionaryLearning(100, random_state=0).fit(indian_pines()[0])


def of_many_samples() -> MatrixFactorization:
    """Return a model that remembers five million samples."""

    def is_over(progress: Progress) -> bool:
        return progress.n_iter == 10

    model = DictionaryLearning(100, callbacks=is_over, random_state=0)
    return model.fit(Repeated(N_SAMPLES, N_FEATURES))


def measure(model: MatrixFactorization, path: Path) -> dict[str, Any]:
    """Return megabytes, and the seconds that writing and reading take."""
    writing, reading = [], []
    for _ in range(N_REPEATS):
        begin = perf_counter()
        model.save(path, state=True)
        writing.append(perf_counter() - begin)
        begin = perf_counter()
        load(path)
        reading.append(perf_counter() - begin)
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
    result: dict[str, Any] = {"machine": facts(), "cases": {}}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name, make in cases.items():
            result["cases"][name] = measure(make(), Path(folder) / "model.somf")
            print(name, result["cases"][name], flush=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
