"""What channels are, and how they are kept in files."""

import json

import pytest

from somf.data import Channels


@pytest.mark.parametrize(
    "channels",
    [
        Channels((450.5, 550), "nm"),
        Channels(names=("red", "green")),
        Channels((1, 2), "keV", "energy", ("a", "b")),
    ],
)
def test_channels_are_restored_from_json(channels):
    assert Channels.restore(json.loads(json.dumps(channels.fields()))) == channels


@pytest.mark.parametrize(
    "change",
    [
        {"values": [1, "2"]},
        {"values": [1, float("nan")]},
        {"values": [1, 10**400]},
        {"values": 3},
        {"unit": None},
        {"label": "x" * 1000},
        {"names": ["a", 2]},
        {"names": ["a"]},
    ],
)
def test_what_is_not_channels_is_refused(change):
    fields = Channels((1, 2), "nm").fields() | change
    with pytest.raises((ValueError, TypeError, OverflowError)):
        Channels.restore(fields)


def test_channels_have_as_many_names_as_values():
    with pytest.raises(ValueError, match="as many names as values"):
        Channels((1, 2), names=("a",))
