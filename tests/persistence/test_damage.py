"""Model files and checkpoints with any damage: an error that names the file, or the same model."""

import json
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import somf
from somf import DictionaryLearning
from somf.errors import DamagedFileError
from somf.persistence import tensorfile

X = np.random.default_rng(0).standard_normal((12, 5)).astype(np.float32)
PARAMS = {"n_components": 2, "reduction": 2, "batch_size": 5, "random_state": 0}
FILES = pytest.mark.parametrize("file", ["model", "state", "checkpoint"])
STRIDE = 7
"""Damage is tried at every seventh byte, which has no common factor with the eight bits of one."""
FUZZED = settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return the bytes of a model, one with its state, and a checkpoint."""
    folder = tmp_path_factory.mktemp("good")

    def stop(progress):
        if progress.n_iter == 2:
            raise InterruptedError

    model = DictionaryLearning(**PARAMS).fit(X)
    model.save(folder / "model")
    model.save(folder / "state", state=True)
    with pytest.raises(InterruptedError):
        DictionaryLearning(**PARAMS, checkpoint=folder / "checkpoint", callbacks=stop).fit(X)
    return {name: (folder / name).read_bytes() for name in ("model", "state", "checkpoint")}


def refused(path):
    """Return whether a file is refused, by name; nothing else may go wrong."""
    try:
        somf.load(path)
    except ValueError as error:
        message = str(error)
    else:
        return False
    assert repr(str(path)) in message
    return True


@FILES
def test_a_flipped_bit_is_found_wherever_it_is(tmp_path, good, file):
    path = tmp_path / "file"
    for position in range(0, len(good[file]), STRIDE):
        content = bytearray(good[file])
        content[position] ^= 1 << position % 8
        path.write_bytes(content)
        with pytest.raises(DamagedFileError, match="file' is not a somf"):
            tensorfile.read(path)


@FILES
def test_every_missing_end_is_found(tmp_path, good, file):
    path = tmp_path / "file"
    for length in range(0, len(good[file]), STRIDE):
        path.write_bytes(good[file][:length])
        assert refused(path)


@st.composite
def mutations(draw):
    """Draw a function that changes bytes: overwrites, inserts, removes, repeats, several times."""
    changes = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["overwrite", "insert", "remove", "repeat"]),
                st.floats(0, 1),
                st.binary(min_size=1, max_size=20),
            ),
            min_size=1,
            max_size=4,
        )
    )

    def mutate(content):
        for what, place, piece in changes:
            at = int(place * len(content))
            end = at + len(piece)
            content = {
                "overwrite": content[:at] + piece + content[end:],
                "insert": content[:at] + piece + content[at:],
                "remove": content[:at] + content[end:],
                "repeat": content[:end] + content[at:],
            }[what]
        return content

    return mutate


@FILES
@FUZZED
@given(mutate=mutations())
def test_a_changed_file_is_refused_by_name(tmp_path, good, file, mutate):
    path = tmp_path / "file"
    path.write_bytes(mutate(good[file]))
    assert refused(path) == (path.read_bytes() != good[file])


ODD = [None, True, -1, 0, 3, 2**31, 2**63, 10**400, 1e308, float("nan"), float("inf"), "", "x"]
values = st.one_of(
    st.sampled_from(ODD),
    st.lists(st.sampled_from(ODD), max_size=3),
    st.dictionaries(st.sampled_from(["shape", "seed", "x"]), st.sampled_from(ODD), max_size=2),
)


@st.composite
def edits(draw):
    """Draw a function that changes, adds or removes entries somewhere in nested fields."""
    changes = draw(st.lists(st.tuples(st.floats(0, 1), st.booleans(), values), min_size=1))

    def edit(fields):
        for place, is_removed, value in changes:
            places = list(_places(fields))
            container, key = places[int(place * (len(places) - 1))]
            if is_removed:
                del container[key]
            else:
                container[key] = value
            if not fields:
                return

    return edit


def _places(fields):
    for key, value in fields.items() if isinstance(fields, dict) else enumerate(fields):
        yield fields, key
        if isinstance(value, dict | list):
            yield from _places(value)


def resealed(path, content, edit):
    """Write a file whose text has been edited, with the checksum that it should have."""
    path.write_bytes(content)
    tensors, text = tensorfile.read(path)
    fields = json.loads(text)
    edit(fields)
    tensorfile.write(path, tensors, json.dumps(fields))


@FILES
@FUZZED
@given(edit=edits())
def test_an_edited_file_is_read_or_refused_by_name(tmp_path, good, file, edit):
    path = tmp_path / "file"
    resealed(path, good[file], edit)
    refused(path)


@settings(FUZZED, max_examples=100)
@given(edit=edits())
def test_an_edited_checkpoint_is_gone_on_from_or_refused(tmp_path, good, edit):
    path = tmp_path / "c"
    resealed(path, good["checkpoint"], edit)
    before = path.read_bytes()
    try:
        model = DictionaryLearning(**PARAMS, checkpoint=path).fit(X)
    except ValueError:
        assert path.read_bytes() == before
    else:
        assert np.isfinite(model.components_).all()
    for left in tmp_path.iterdir():
        left.unlink()


@pytest.mark.parametrize("count", [-1, 2**63, 10**400], ids=["negative", "large", "huge"])
def test_a_checkpoint_whose_counters_cannot_be_is_refused_by_name(tmp_path, good, count):
    path = tmp_path / "c"
    resealed(path, good["checkpoint"], lambda f: f["counters"].update(n_samples_seen=count))
    with pytest.raises(ValueError, match=re.escape(str(path))):
        DictionaryLearning(**PARAMS, checkpoint=path).fit(X)


@FILES
@pytest.mark.parametrize(
    "lie",
    [
        lambda h: h["shape"].__setitem__(0, 2**40),
        lambda h: (h["shape"].__setitem__(0, 2**40), h["data_offsets"].__setitem__(1, 2**43)),
        lambda h: h["data_offsets"].__setitem__(1, 2**62),
        lambda h: h.update(shape=[2**31, 2**31, 0], data_offsets=[0, 0]),
    ],
    ids=range(4),
)
def test_a_header_that_claims_more_than_there_is_takes_no_memory(tmp_path, good, file, lie):
    path = tmp_path / "file"
    content = good[file]
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    lie(header["components" if file == "model" else "state.D"])
    encoded = json.dumps(header).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + content[8 + length :])
    tracemalloc.start()
    try:
        assert refused(path)
        assert tracemalloc.get_traced_memory()[1] < 10 * len(content) + 2**20
    finally:
        tracemalloc.stop()
