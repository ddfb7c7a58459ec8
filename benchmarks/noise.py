"""Noise before passes over all samples: how much is remembered meanwhile, and what that gains.

    python -m benchmarks.noise [--seeds 6] [--data digits] [--processes 2]

The data sets of `benchmarks.datasets` and some of `benchmarks.unseen_datasets`. Fits differ in what
they remember in the last epoch before the passes: as much as before, a fixed number of samples
per atom, what the default rule says, or the same until the passes begin. The result is the
objective after eight epochs, on the samples that were learned from, and that at the end of a fit,
on held-out samples, with the epochs that it took. Every fit has one thread.
"""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from benchmarks.contenders import Judge, estimator
from benchmarks.datasets import DATASETS
from benchmarks.jobs import Rows, by_data, load
from benchmarks.machine import write_results
from somf.algorithm import forgetting
from somf.training import convergence

SETTINGS = ("none", "8", "16", "32", "until the passes", "rule")
"""Samples per atom that are remembered, or how."""

EPOCHS = 8
"""Epochs after which fits are compared."""

N_JUDGED = 5000
"""Samples of those that were learned from on which the objective is measured."""

NAMES = (
    *(name for name in DATASETS if name != "small images"),
    "digits, NMF",
    "low rank",
    "heavy tails",
    "norms",
    "scales",
    "five features",
    "topics",
    "correlated",
    "grey, large λ",
    "spectra",
    "spectrogram",
)
"""The data sets. Small images are left out: with forty of them held out, seeds decide."""


@contextmanager
def remembering(setting: str) -> Iterator[None]:
    """Let fits remember so many samples per atom for some time before their passes."""
    if setting == "rule":
        yield
    elif setting == "none":
        expect = forgetting.Adaptive.expect_epochs
        with mock.patch.object(
            forgetting.Adaptive,
            "expect_epochs",
            lambda self, n_samples, *_: expect(self, n_samples),
        ):
            yield
    elif setting == "until the passes":
        with mock.patch.object(convergence, "NOISY_SHARE", 1.0):
            yield
    else:
        per_atom = float(setting)
        with (
            mock.patch.object(forgetting, "NOISY_PER_ATOM", per_atom),
            mock.patch.object(forgetting, "LEAST_PER_ATOM", per_atom),
        ):
            yield


def measure(job: tuple[str, str, int]) -> tuple[str, Rows]:
    """Return the results of a setting with a seed, and the name of the data."""
    name, setting, seed = job
    data = load(name)
    with remembering(setting):
        short = estimator(data, seed, n_threads=1, n_epochs=EPOCHS, tol=0).fit(data.train)
        whole = estimator(data, seed, n_threads=1).fit(data.train)
    found = {
        "setting": setting,
        "seed": seed,
        "training objective": float(short.objective(data.train[:N_JUDGED])),
        "objective": Judge(data)(whole.components_),
        "epochs": whole.n_samples_seen_ / data.train.shape[0],
    }
    return name, [found]


def main() -> None:
    """Measure, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    only = "only these; results of other data are kept"
    parser.add_argument("--data", nargs="+", choices=NAMES, metavar="NAME", help=only)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/noise.json"))
    options = parser.parse_args()
    known = json.loads(options.output.read_text())["data"] if options.output.exists() else {}
    names = options.data or NAMES
    jobs = [(n, s, seed) for n in names for seed in range(options.seeds) for s in SETTINGS]
    for name, rows in by_data(measure, jobs, options.processes):
        known[name] = sorted(rows, key=lambda row: (row["seed"], row["setting"]))
        write_results(options.output, {"data": {n: known[n] for n in NAMES if n in known}})
        print(f"{name}: done", flush=True)


if __name__ == "__main__":
    main()
