"""Model files that were damaged, or crafted and given the checksum that they should have."""

import json

import numpy as np

from somf.persistence import tensorfile

VALUES = [
    None,
    True,
    -1,
    0,
    1,
    3,
    2**31,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    10**400,
    0.5,
    5e-324,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "auto",
    "\x1b[31m",
    [],
    [[1, 2], ["a", 3]],
    {},
    {"shape": 3},
]
"""What a crafted file has in the place of anything."""

NUMBERS = [0.0, -0.0, 5e-324, 1e-200, 1.0, -1.0, 1e10, 1e200, -1e308, np.inf, np.nan]
"""What a crafted array of floats has."""

INTEGERS = [0, 1, -1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63)]
"""What a crafted array of integers has."""


def damaged(content, rng):
    """Return bytes with some of them flipped, overwritten, removed or cut off."""
    content = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(content)))
        what = rng.integers(4)
        if what == 0:
            content[at] ^= 1 << int(rng.integers(8))
        elif what == 1:
            content[at : at + 8] = rng.bytes(8)
        elif what == 2:
            del content[at : at + int(rng.integers(1, 20))]
        elif at > 0:
            del content[at:]
    return bytes(content)


def craft(path, content, rng):
    """Write a file with a few changes in its text or arrays, and the right checksum."""
    path.write_bytes(content)
    tensors, text = tensorfile.read(path)
    fields = json.loads(text)
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.6:
            _edit(fields, rng)
        else:
            _edit_array(tensors, rng)
    tensorfile.write(path, tensors, json.dumps(fields))


def _edit(fields, rng):
    """Replace or remove an entry; entries at any depth are equally likely."""
    places = list(_places(fields))
    if not places:
        return
    container, key = places[rng.integers(len(places))]
    if rng.random() < 0.15:
        del container[key]
    else:
        value = VALUES[rng.integers(len(VALUES))]
        container[key] = json.loads(json.dumps(value))


def _places(fields):
    for key, value in fields.items() if isinstance(fields, dict) else enumerate(fields):
        yield fields, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _edit_array(tensors, rng):
    """Change some entries of an array, its type or its shape, or remove it."""
    name = sorted(tensors)[rng.integers(len(tensors))]
    array = tensors[name].copy()
    what = rng.integers(8)
    if what == 0 and len(tensors) > 1:
        del tensors[name]
        return
    if what == 1:
        with np.errstate(invalid="ignore"):
            array = array.astype(np.float64 if array.dtype.kind == "i" else np.int64)
    elif what == 2:
        array = array[:-1] if rng.random() < 0.5 else array.reshape(-1)
    elif array.size:
        odd = INTEGERS if array.dtype.kind == "i" else NUMBERS
        where = rng.integers(array.size, size=int(rng.integers(1, 4)))
        if rng.random() < 0.3:
            where = slice(None)
        with np.errstate(over="ignore"):
            array.reshape(-1)[where] = np.array(odd[rng.integers(len(odd))]).astype(array.dtype)
    tensors[name] = array
