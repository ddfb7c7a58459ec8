"""Model files: what they hold, earlier formats, and files that make no sense."""

import json

import numpy as np
import pytest

import somf
from somf import DictionaryLearning, ImagePatches
from somf.algorithm.schedule import TOP
from somf.algorithm.state import State
from somf.errors import DamagedFileError
from somf.persistence import modelfile, tensorfile
from tests.helpers.problems import planted

GEOMETRY = {
    "patch_size": [6, 10],
    "stride": [1, 1],
    "center": True,
    "scale": True,
    "no_data": None,
    "images": [{"shape": [20, 20], "dtype": "uint8"}],
}
"""Patches that could be those of a model of 60 features."""


def test_states_from_before_reductions_were_lowered_are_read(toy):
    state = DictionaryLearning(5, reduction=2, random_state=0).fit(toy)._state
    counters = state.counters()
    del counters["rung"]
    assert State.restore(state.arrays(), counters).counters() == state.counters()


@pytest.mark.parametrize(("n_features", "rung"), [(3600, 0), (60, TOP)])
def test_halvings_of_the_reduction_in_older_files_become_rungs(n_features, rung):
    X = planted(50, n_features, 4, noise=0.1)[0]
    state = DictionaryLearning(4, batch_size=4, random_state=0).partial_fit(X)._state
    assert state.rung == rung
    counters = state.counters() | {"n_halvings": 3 if rung == TOP else 0}
    del counters["rung"]
    assert State.restore(state.arrays(), counters).rung == rung


def test_the_last_rung_of_a_longer_ladder_in_older_files_is_the_last_one(toy):
    state = DictionaryLearning(4, random_state=0).partial_fit(toy)._state
    assert state.rung == TOP
    counters = state.counters() | {"rung": 4}
    del counters["phase"]
    assert State.restore(state.arrays(), counters).counters() == state.counters()


@pytest.mark.parametrize("state", [False, True])
def test_files_of_the_first_format_are_read(toy, tmp_path, state):
    path = tmp_path / "model.somf"
    model = DictionaryLearning(5, reduction=2, random_state=0).fit(toy)
    model.save(path, state=state)
    tensors, text = tensorfile.read(path)
    fields = json.loads(text) | {"format": 1}
    del fields["fit"]
    tensorfile.write(path, {"components": model.components_} | tensors, json.dumps(fields))
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    data = content[8 + int.from_bytes(content[:8], "little") :]
    del header["__metadata__"]["sha256"]
    encoded = json.dumps(header).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)
    loaded = somf.load(path)
    np.testing.assert_array_equal(loaded.components_, model.components_)
    if state:
        for each in (model, loaded):
            each.partial_fit(toy[:50], sample_ids=np.arange(50))
        np.testing.assert_array_equal(loaded.components_, model.components_)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"kind": "Pickle"},
        {"params": {"n_components": 5, "evil": 1}},
        {"params": {"n_components": -1}},
        {"params": 3},
        {"history": []},
        {"history": {"objective": ["x"]}},
        {"feature_names": ["a"]},
        {"history": {"objective": [True], "n_iter": [0]}},
        {"history": {"objective": [1.0], "n_iter": []}},
        {"format": True},
        {"n_iter": None},
        {"n_iter": -5},
        {"n_samples_seen": 1e300},
        {"counters": {}},
        {"counters": 3},
    ],
    ids=str,
)
def test_a_model_that_makes_no_sense_is_refused_by_name(toy, tmp_path, change):
    path = tmp_path / "model.somf"
    DictionaryLearning(5, random_state=0).fit(toy).save(path, state=True)
    tensors, text = tensorfile.read(path)
    tensorfile.write(path, tensors, json.dumps(json.loads(text) | change))
    with pytest.raises(ValueError, match=r"model\.somf"):
        somf.load(path)


def test_a_file_does_not_say_where_a_fit_writes(toy, tmp_path):
    path = tmp_path / "model.somf"
    DictionaryLearning(5, random_state=0).fit(toy).save(path)
    tensors, text = tensorfile.read(path)
    fields = json.loads(text)
    fields["params"]["checkpoint"] = str(tmp_path / "victim")
    tensorfile.write(path, tensors, json.dumps(fields))
    somf.load(path).fit(toy)
    assert not (tmp_path / "victim").exists()


def test_what_a_model_lacks_is_named(toy, tmp_path):
    path = tmp_path / "model.somf"
    DictionaryLearning(5, random_state=0).fit(toy).save(path)
    _, text = tensorfile.read(path)
    tensorfile.write(path, {}, text)
    with pytest.raises(ValueError, match=r"is not a somf model: it has no 'components'\.$"):
        somf.load(path)


@pytest.mark.parametrize("name", ["state.B", "state.C", "state.grams", "state.memory.code"])
def test_a_state_of_the_wrong_shape_is_refused_by_name(toy, tmp_path, name):
    path = tmp_path / "model.somf"
    DictionaryLearning(5, reduction=4, random_state=0).fit(toy).save(path, state=True)
    tensors, text = tensorfile.read(path)
    for broken in (
        tensors | {name: tensors[name][..., :-1]},
        {k: v for k, v in tensors.items() if k != name},
    ):
        tensorfile.write(path, broken, text)
        with pytest.raises(ValueError, match=r"model\.somf' is not a somf model"):
            somf.load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state.permutation", np.zeros(60, dtype=np.int64)),
        ("state.permutation", np.arange(60)),
        ("state.D", np.full((60, 5), np.nan)),
        ("state.memory.n_visits", np.full(300, -1)),
        ("state.memory.ids", np.zeros(300, dtype=np.int64)),
        ("state.memory.gram", np.zeros((300, 0))),
        ("state.surprise", np.zeros(3)),
    ],
)
def test_a_state_that_cannot_be_is_refused_by_name(toy, tmp_path, name, value):
    path = tmp_path / "model.somf"
    DictionaryLearning(5, random_state=0).fit(toy).save(path, state=True)
    tensors, text = tensorfile.read(path)
    tensorfile.write(path, tensors | {name: value}, text)
    with pytest.raises(ValueError, match=r"model\.somf' is not a somf model"):
        somf.load(path)


def test_a_state_with_another_order_inside_of_blocks_continues_as_well(toy, tmp_path):
    path = tmp_path / "model.somf"
    model = DictionaryLearning(5, reduction=3, random_state=0).fit(toy)
    model.save(path, state=True)
    tensors, text = tensorfile.read(path)
    backwards = np.concatenate([block[::-1] for block in np.split(np.arange(60), 6)])
    rows = ("state.permutation", "state.D", "state.B")
    tensorfile.write(path, tensors | {name: tensors[name][backwards] for name in rows}, text)
    again = somf.load(path).partial_fit(toy[:50])
    np.testing.assert_allclose(again.components_, model.partial_fit(toy[:50]).components_)


def test_other_files_are_refused_by_name(tmp_path):
    for content in (b"", b"12345678", b"PK\x03\x04" + bytes(1000), b"\x80\x04K\x01."):
        (tmp_path / "model.somf").write_bytes(content)
        with pytest.raises(ValueError, match=r"model\.somf' is not a somf file"):
            somf.load(tmp_path / "model.somf")
    with pytest.raises(FileNotFoundError, match=r"missing\.somf"):
        somf.load(tmp_path / "missing.somf")


def test_a_file_says_which_version_wrote_it(toy, tmp_path):
    DictionaryLearning(5, random_state=0).fit(toy).save(tmp_path / "model.somf")
    assert modelfile.version_of(tmp_path / "model.somf") == somf.__version__


@pytest.mark.parametrize(
    "change",
    [
        {"patches": 3},
        {"patches": {}},
        {"patches": {"patch_size": [4, 5]}},
        {"patches": GEOMETRY | {"images": []}},
        {"patches": GEOMETRY | {"images": [3]}},
        {"patches": GEOMETRY | {"images": [{"shape": [9], "dtype": "uint8"}]}},
        {"patches": GEOMETRY | {"stride": [1, 1, 1]}},
        {"alpha": -1},
        {"alpha": "auto"},
        {"alpha": None},
    ],
    ids=str,
)
def test_a_model_whose_geometry_or_weight_makes_no_sense_is_refused_by_name(toy, tmp_path, change):
    path = tmp_path / "model.somf"
    DictionaryLearning(5, random_state=0).fit(toy).save(path)
    tensors, text = tensorfile.read(path)
    tensorfile.write(path, tensors, json.dumps(json.loads(text) | change))
    with pytest.raises(ValueError, match=r"model\.somf"):
        somf.load(path)


def test_patches_that_do_not_have_the_size_of_atoms_are_refused_by_name(tmp_path):
    path = tmp_path / "model.somf"
    DictionaryLearning(5).fit(ImagePatches(np.random.default_rng(0).random((20, 20)), 4)).save(path)
    tensors, text = tensorfile.read(path)
    fields = json.loads(text)
    fields["patches"]["patch_size"] = [4, 5]
    tensorfile.write(path, tensors, json.dumps(fields))
    with pytest.raises(ValueError, match=r"model\.somf' is not a somf model: its patches"):
        somf.load(path)


def test_files_of_the_second_format_are_read(toy, tmp_path):
    path = tmp_path / "model.somf"
    model = DictionaryLearning(5, alpha=0.2, random_state=0).fit(toy)
    model.save(path)
    tensors, text = tensorfile.read(path)
    fields = json.loads(text) | {"format": 2}
    for name in ("alpha", "patches", "version"):
        del fields[name]
    del fields["params"]["code_density"]
    tensorfile.write(path, tensors, json.dumps(fields))
    loaded = somf.load(path)
    assert (loaded.alpha_, loaded.code_density) == (0.2, 0.1)
    assert modelfile.version_of(path) is None
    np.testing.assert_array_equal(loaded.transform(toy), model.transform(toy))


def resealed(path, change):
    """Change tensors and fields of a file, and write it with the checksum that it should have."""
    tensors, text = tensorfile.read(path)
    fields = json.loads(text)
    change(tensors, fields)
    tensorfile.write(path, tensors, json.dumps(fields))


@pytest.mark.parametrize(
    "permutation",
    [
        np.arange(60) + 10**6,
        np.arange(60) - 10**6,
        np.arange(60) - 60,
        np.arange(59),
        np.arange(60).reshape(6, 10),
        np.arange(60) // 2,
        np.arange(60, dtype=np.float64),
        np.full(60, np.nan),
    ],
    ids=["beyond", "before", "negative", "short", "matrix", "double", "float", "nan"],
)
@pytest.mark.parametrize("reduction", [1, 3])
def test_a_permutation_that_is_none_is_refused_by_name(toy, tmp_path, permutation, reduction):
    path = tmp_path / "model.somf"
    DictionaryLearning(5, reduction=reduction, random_state=0).fit(toy).save(path, state=True)
    resealed(path, lambda tensors, _: tensors.update({"state.permutation": permutation}))
    with pytest.raises(DamagedFileError, match=r"model\.somf' is not a somf model"):
        somf.load(path)
    with pytest.raises(DamagedFileError, match=r"model\.somf' is not a somf model"):
        modelfile.load(path)


def test_the_permutation_of_a_fit_as_floats_is_refused_by_name(toy, tmp_path):
    path = tmp_path / "model.somf"
    DictionaryLearning(5, reduction=3, random_state=0).fit(toy).save(path, state=True)

    def as_floats(tensors, _):
        tensors["state.permutation"] = tensors["state.permutation"].astype(np.float64)

    resealed(path, as_floats)
    with pytest.raises(DamagedFileError, match="permutation"):
        somf.load(path)


@pytest.mark.parametrize("count", [2**53 + 1, 2**63 - 1, 2**63, 10**400, -1, 1.5], ids=str)
@pytest.mark.parametrize(
    "name", ["n_iter", "n_samples_seen", "n_averaged", "rung", "phase", "seed"]
)
def test_counters_that_would_overflow_are_refused_by_name(toy, tmp_path, count, name):
    path = tmp_path / "model.somf"
    DictionaryLearning(5, random_state=0).fit(toy).save(path, state=True)
    resealed(path, lambda _, fields: fields["counters"].update({name: count}))
    with pytest.raises(DamagedFileError, match=r"model\.somf' is not a somf model"):
        somf.load(path)


@pytest.mark.parametrize("name", ["last_used", "patience", "n_users", "memory.n_visits"])
@pytest.mark.parametrize("count", [2**63 - 1, -1])
def test_counts_in_arrays_that_would_overflow_are_refused_by_name(toy, tmp_path, name, count):
    path = tmp_path / "model.somf"
    DictionaryLearning(5, reduction=4, random_state=0).fit(toy).save(path, state=True)
    resealed(path, lambda tensors, _: tensors[f"state.{name}"].__setitem__(0, count))
    with pytest.raises(DamagedFileError, match=f"{name} of its state is negative or too large"):
        somf.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda history: history["objective"].__setitem__(0, 10**400),
        lambda history: history["n_iter"].__setitem__(0, 2**63),
        lambda history: history.pop("n_samples_seen"),
        lambda history: [column.clear() for column in history.values()],
    ],
    ids=range(4),
)
def test_a_history_that_cannot_be_is_refused_by_name(toy, tmp_path, change):
    path = tmp_path / "model.somf"
    DictionaryLearning(5, random_state=0).fit(toy, validation=0.1).save(path)
    resealed(path, lambda _, fields: change(fields["history"]))
    with pytest.raises(DamagedFileError, match=r"model\.somf' is not a somf model: .*history"):
        somf.load(path)


def test_parameters_without_names_are_refused_by_name(toy, tmp_path):
    path = tmp_path / "model.somf"
    DictionaryLearning(5, random_state=0).fit(toy).save(path)
    resealed(path, lambda _, fields: fields.update(params=[[1, 2], ["alpha", 3]]))
    with pytest.raises(DamagedFileError, match=r"model\.somf' is not a somf model"):
        somf.load(path)


def without_checksum(path):
    """Remove the checksum from a file, as an attacker would."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    del header["__metadata__"]["sha256"]
    encoded = json.dumps(header).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + content[end:])


@pytest.mark.parametrize("file_format", [1, 2, 3, 4])
def test_only_the_first_format_may_lack_a_checksum(toy, tmp_path, file_format):
    path = tmp_path / "model.somf"
    model = DictionaryLearning(5, random_state=0).fit(toy)
    model.save(path)
    resealed(path, lambda _, fields: fields.update(format=file_format))
    np.testing.assert_array_equal(somf.load(path).components_, model.components_)
    without_checksum(path)
    if file_format == 1:
        np.testing.assert_array_equal(somf.load(path).components_, model.components_)
    else:
        with pytest.raises(DamagedFileError, match="it has no checksum"):
            somf.load(path)
