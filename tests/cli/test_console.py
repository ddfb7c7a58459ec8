"""What commands print."""

import json

import pytest

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

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
