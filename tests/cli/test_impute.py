"""``somf impute``, and the options of `fit` about entries that are unknown or have weights."""

import numpy as np
import scipy.sparse as sp

import somf
from tests.helpers.ratings import planted_ratings

FIT = "fit holes.npy --components 3 --alpha 0.001 --epochs 3 --missing nan -o holes.somf"


def write_holes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 20))
    X[rng.random(X.shape) < 0.3] = np.nan
    np.save("holes.npy", X)
    return X


def test_unknown_entries_are_filled_in_and_known_ones_stay(somf_command):
    X = write_holes()
    somf_command(FIT)
    facts = somf_command.json("impute holes.somf holes.npy -o filled.npy")
    assert facts == {"filled": "filled.npy", "samples": 200, "features": 20}
    filled = np.load("filled.npy")
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(somf.load("holes.somf").impute(X), filled)


def test_ratings_have_offsets_and_a_run_can_be_repeated(somf_command):
    known, _ = planted_ratings(120, 60, 2, share=0.3)
    sp.save_npz("ratings.npz", sp.csr_matrix(known))
    np.save("counts.npy", np.diff(known.indptr))
    somf_command(
        "fit ratings.npz --problem matrix-factorization --l1-ratio 0 --components 2 --epochs 2 "
        "--missing absent --offsets --sample-weight counts.npy --weights ratings.npz -o r.somf"
    )
    model = somf.load("r.somf")
    assert (model.center, model.missing, len(model.offsets_)) == ("both", "absent", 60)
    somf_command("fit --config r.somf.toml -o again.somf")
    np.testing.assert_array_equal(somf.load("again.somf").components_, model.components_)
    somf_command("impute r.somf ratings.npz -o filled.zarr --quiet")


def test_a_model_of_data_without_unknown_entries_imputes_nothing(somf_command):
    somf_command("fit rows.npy --components 3 --epochs 1 -o rows.somf")
    somf_command("impute rows.somf rows.npy -o filled.npy", code=1)
    assert "missing must be 'nan' or 'absent' to impute" in somf_command.errors
    somf_command("impute rows.somf rows.npy -o filled.csv", code=2)
