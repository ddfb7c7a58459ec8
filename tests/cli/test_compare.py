"""The command that matches the atoms of two models."""

import os

import numpy as np
import pytest

import somf


@pytest.fixture
def models(somf_command):
    for seed in (0, 1):
        options = "--components 5 --epochs 1 --alpha 0.1"
        somf_command(f"fit rows.npy {options} --seed {seed} -o {seed}.somf --quiet")
    return [somf.load(f"{seed}.somf").components_ for seed in (0, 1)]


def test_a_table_has_the_pairs_and_json_has_all_of_them(somf_command, models):
    found = somf_command.json("compare 0.somf 1.somf --pairs 2")
    assert found["pairs"] == len(found["rows"]) == 5
    for row in found["rows"]:
        one, other = models[0][row["atom_of_one"]], models[1][row["atom_of_other"]]
        cosine = abs(one @ other) / np.linalg.norm(one) / np.linalg.norm(other)
        assert row["similarity"] == pytest.approx(cosine, rel=1e-5)
    assert "and 3 more pairs" in somf_command("compare 0.somf 1.somf --pairs 2")


def test_pairs_are_drawn(somf_command, models):
    pytest.importorskip("matplotlib", reason="pictures come with the extra 'plot'")
    somf_command("compare 0.somf 1.somf -o pairs.png --shape 4x6")
    assert os.path.getsize("pairs.png") > 1000
    somf_command("compare 0.somf 1.somf -o pairs.txt", code=2)
    somf_command("compare 0.somf 1.somf -o 0.somf", code=2)


def test_models_of_other_features_are_refused_by_name(somf_command, models):
    somf_command("fit scene.npy --patches 2x2 --components 3 --epochs 1 -o scene.somf --quiet")
    somf_command("compare 0.somf scene.somf", code=1)
    assert "'scene.somf' must have 24 features like '0.somf'" in somf_command.errors
