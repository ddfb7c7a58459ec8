"""What commands print."""

import json
import logging
import warnings

import numpy as np
import pytest

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

from somf.cli.app import print_traceback
from somf.cli.console import Console
from somf.errors import SparsityWarning
from somf.persistence import tensorfile


def test_text_from_a_file_cannot_control_the_terminal(somf_command):
    somf_command("fit scene.npy --patches 4 --components 6 -o scene.somf")
    tensors, text = tensorfile.read("scene.somf")
    fields = json.loads(text)
    fields["patches"]["path"] = fields["version"] = "\x1b[2Jred\nforged line"
    tensorfile.write("scene.somf", tensors, json.dumps(fields))
    said = somf_command("info scene.somf")
    assert "\x1b" not in said
    assert "\\x1b[2Jred\\nforged line" in said


def test_quiet_prints_nothing_and_json_prints_only_json(somf_command):
    assert somf_command("fit rows.npy --components 6 -o rows.somf --quiet") == ""
    assert somf_command.errors == ""
    assert json.loads(somf_command("score rows.somf rows.npy --json"))["samples"] == 300
    assert somf_command.errors == ""


def test_quiet_does_not_hide_warnings(somf_command):
    somf_command("fit rows.npy --problem nmf --components 6 -o rows.somf --quiet")
    assert somf_command.errors.startswith("Warning: X has negative entries")


EVIL = "\x1b]0;owned\x07\x1b[2J\x9b1m\u202e"
"""Sets the title of a terminal, clears it, switches to bold, and reverses what follows."""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["info", f"{EVIL}.npy"], 1),
        (["fit", f"{EVIL}.npy", "-o", "m.somf"], 1),
        (["fit", "rows.npy", "-o", f"{EVIL}/m.somf"], 1),
        (["fit", f"--{EVIL}"], 2),
        (["fit", "rows.npy", "--components", EVIL], 2),
        (["fit", "rows.npy", "--masks", EVIL], 2),
        (["fit", "rows.npy", "--config", f"{EVIL}.toml"], 1),
        (["fit", "rows.npy", "--config", "evil.toml", "-o", "m.somf"], 2),
        (["info", "rows.npy", EVIL], 2),
        ([f"a{EVIL}"], 2),
        ([f"--{EVIL}"], 2),
        (["fit", "evil.h5", "-o", "m.somf"], 2),
        (["info", "evil.h5"], 0),
        (["info", f"{EVIL}.somf"], 0),
        (["info", f"{EVIL}.somf", "--json"], 0),
        (["report", f"{EVIL}.somf", "-o", f"{EVIL}.html"], 0),
        (["transform", f"{EVIL}.somf", "narrow.npy", "-o", "codes.npy"], 1),
    ],
)
def test_no_name_and_no_content_of_a_file_reaches_the_terminal_raw(somf_command, arguments, code):
    if "evil.h5" in arguments:
        h5py = pytest.importorskip("h5py", reason="HDF5 comes with the extra 'hdf5'")
        with h5py.File("evil.h5", "w") as file:
            file[EVIL], file["b"] = np.ones((5, 4)), np.ones((3, 3))
    somf_command(["fit", "rows.npy", "--components", "6", "-o", f"{EVIL}.somf"])
    assert_harmless(somf_command)
    np.save("narrow.npy", np.load("rows.npy")[:, :5])
    with open("evil.toml", "w") as file:
        file.write(f"{json.dumps(EVIL)} = 1\n")
    somf_command(arguments, code=code)
    assert_harmless(somf_command)


def assert_harmless(somf_command):
    for text in (somf_command.run.stdout, somf_command.errors):
        assert all(c.isprintable() or c == "\n" for c in text), text


def test_logs_and_warnings_cannot_control_the_terminal(capsys):
    with Console().forward_logs():
        logging.getLogger("somf").info("reading %s", EVIL)
        warnings.warn(EVIL, UserWarning, stacklevel=1)
    said = capsys.readouterr().err
    assert said.count("owned") == 2
    assert all(c.isprintable() or c == "\n" for c in said)


def test_the_traceback_of_a_bug_cannot_control_the_terminal(capsys):
    print_traceback(KeyError, KeyError(EVIL), None)
    print_traceback(RuntimeError, RuntimeError(EVIL), None)
    said = capsys.readouterr().err
    assert said.count("owned") == 2
    assert all(c.isprintable() or c == "\n" for c in said)


def test_a_warning_about_codes_names_options_of_the_command(capsys):
    text = (
        'All codes are empty: alpha=1 is too large. alpha="auto" with code_density finds such a '
        "value; normalize=True scales samples."
    )
    with Console(quiet=True, as_json=False).forward_logs():
        warnings.warn(text, SparsityWarning, stacklevel=1)
    assert capsys.readouterr().err == (
        "Warning: All codes are empty: --alpha 1 is too large. --density finds such a value; "
        "--normalize scales samples.\n"
    )
