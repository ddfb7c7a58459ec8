"""Fits that are killed without a warning, as by a power failure, and go on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the fits to be killed are forked")


def run(what, folder):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.helpers.killing", what, str(folder)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # a process with threads must not fork
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_killed_twenty_times_at_random_moments_a_fit_equals_an_undisturbed_one(tmp_path):
    result = run("at_random", tmp_path)
    assert result["same"], result
    assert result["files"] == ["", ".previous"], result


def test_killed_while_a_checkpoint_is_written_a_fit_equals_an_undisturbed_one(tmp_path):
    results = run("while_writing", tmp_path)
    assert len(results) == 25
    for where, result in results.items():
        assert result["killed"], where
        assert result["same"], where
        assert result["files"] == ["", ".previous"], where
        # A checkpoint that was there has not been missing at any moment.
        assert "" in result["left"] or ".previous" not in result["left"], where
    assert any(".previous" in result["left"] for result in results.values())
