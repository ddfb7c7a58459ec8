"""Small versions of the benchmark of Figure 1."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.curves import Curve
from benchmarks.figure1 import (
    DICTIONARY_LEARNING,
    NMF_METHODS,
    OMF,
    SCIKIT_LEARN,
    SOMF,
    SPAMS,
    Experiment,
    Results,
    draw,
    measure,
)
from benchmarks.scenes import split
from benchmarks.tables.figure1 import ratios
from somf.penalties import CodePenalty

FOREVER = float("inf")
"""A time limit that is never reached."""


def small_scene(center=True):
    noise = np.random.default_rng(0).random((24, 60, 2), dtype=np.float32)
    row, column, channel = np.ogrid[:24, :60, :2]
    waves = np.sin(row / 3) * np.sin(column / 2 + channel) + np.sin(row / 5 + column / 7)
    return split((2 + waves + noise).astype(np.float32), 40, stride=4, center=center)


def small_experiment(methods):
    return Experiment(small_scene, CodePenalty(0.1, 1.0, False), methods, n_epochs=2)


@pytest.mark.parametrize("label", [OMF, SOMF, "incremental, r = 4", SPAMS, SCIKIT_LEARN])
def test_every_method_sees_all_samples_and_improves(label, tmp_path):
    if label == SPAMS:
        pytest.importorskip("spams", reason="SPAMS comes with the extra 'bench'")
    results = Results(tmp_path / "figure1.json")
    experiment = small_experiment({label: DICTIONARY_LEARNING[label]})
    measure(results, "Indian Pines", experiment, [(0, label)], FOREVER)
    curve = results.content["data"]["Indian Pines"]["runs"][label]["0"]
    n_epochs = min(2, DICTIONARY_LEARNING[label].n_epochs)
    assert curve["n_samples"][-1] == n_epochs * small_scene()[0].shape[0]
    assert curve["objective"][-1] < curve["objective"][0]
    assert len({len(values) for values in curve.values() if isinstance(values, list)}) == 1
    assert all(c <= w for c, w in zip(curve["compute_seconds"], curve["wall_seconds"], strict=True))


def test_nmf_of_scikit_learn_starts_from_the_same_atoms(tmp_path):
    results = Results(tmp_path / "figure1.json")
    methods = {label: NMF_METHODS[label] for label in (OMF, SCIKIT_LEARN)}
    penalty = CodePenalty(0.0, 1.0, True)
    experiment = Experiment(lambda: small_scene(center=False), penalty, methods, n_epochs=1)
    measure(results, "Indian Pines, NMF", experiment, [(0, m) for m in methods], FOREVER)
    runs = results.content["data"]["Indian Pines, NMF"]["runs"]
    first, second = (runs[label]["0"]["objective"] for label in methods)
    assert first[0] == pytest.approx(second[0])
    assert second[-1] < second[0]


def test_a_disturbed_run_is_repeated_and_the_less_disturbed_one_is_kept(tmp_path):
    path = tmp_path / "figure1.json"
    experiment = small_experiment({OMF: DICTIONARY_LEARNING[OMF]})
    results = Results(path)
    results.begin("Indian Pines", *small_scene())
    quiet, disturbed = (replace(curve([0.0, 1.0], [2.0, 1.0]), others=x) for x in (0.01, 0.9))
    results.add("Indian Pines", 0, OMF, quiet)
    results.add("Indian Pines", 0, OMF, disturbed)
    results.add("Indian Pines", 1, OMF, replace(disturbed, others=float("inf")))
    measure(results, "Indian Pines", experiment, [(0, OMF), (1, OMF)], FOREVER)
    first, second = Results(path).content["data"]["Indian Pines"]["runs"][OMF].values()
    assert first["objective"] == quiet.objective
    assert len(second["objective"]) > 2


def test_the_figure_is_drawn_from_incomplete_results(tmp_path):
    results = Results(tmp_path / "figure1.json")
    experiment = small_experiment({OMF: DICTIONARY_LEARNING[OMF]})
    measure(results, "Indian Pines", experiment, [(0, OMF)], FOREVER)
    draw(results.content, tmp_path / "figure1.png")
    assert (tmp_path / "figure1.png").stat().st_size > 1000


def test_no_run_starts_after_the_time_limit(tmp_path):
    results = Results(tmp_path / "figure1.json")
    measure(results, "Indian Pines", small_experiment({}), [(0, OMF)], end=0.0)
    assert results.content["data"] == {}


def curve(seconds, objective):
    n_samples = list(range(len(seconds)))
    return Curve(n_samples, seconds, seconds, seconds, objective)


def test_the_time_to_an_objective_is_interpolated():
    found = curve([0.0, 1.0, 3.0], [5.0, 4.0, 2.0])
    assert found.seconds_to(3.0) == 2.0
    assert found.seconds_to(4.0) == 1.0
    assert found.seconds_to(6.0) == 0.0
    assert found.seconds_to(1.0) is None


def test_a_peer_that_misses_the_objective_gives_a_lower_bound():
    ours, slow, lost = (
        curve([0.0, s], [2.0, last]) for s, last in ((1.0, 1.0), (4.0, 1.0), (3.0, 1.5))
    )
    assert ratios([ours, ours], [slow, lost], 1.0, "wall_seconds") == [(4.0, False), (3.0, True)]
    assert ratios([lost], [ours], 1.0, "wall_seconds") == []
