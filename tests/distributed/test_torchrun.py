"""Programs and the command under torchrun."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import somf
from somf.cli.workers import without_option
from tests.distributed import jobs
from tests.helpers.problems import planted

pytest.importorskip("torch", reason="torch comes with the extra 'distributed'")
pytest.importorskip("click", reason="the command comes with the extra 'cli'")

SCRIPT = """
import os, signal, sys
import somf

rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]

def kill(progress):
    if progress.n_iter == 6 and rank == "1" and attempt == "0" and "kill" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)

checkpoint = somf.Checkpoint(sys.argv[2], every_samples=1)
model = somf.DictionaryLearning(
    6, n_epochs=3, random_state=0, n_threads=1, checkpoint=checkpoint, callbacks=[kill]
)
model.fit(sys.argv[1])
model.save(sys.argv[2] + ".model" + rank)
"""


def run(*arguments, timeout=120):
    """Run Python; return the finished process."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


@pytest.fixture
def data(tmp_path):
    np.save(tmp_path / "x.npy", planted(300, 40, 6)[0])
    return tmp_path / "x.npy"


def test_a_program_under_torchrun_is_restarted_and_resumes_bit_by_bit(two, data, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    done = run(*torchrun, "--max-restarts=1", script, data, tmp_path / "c", "kill")
    assert done.returncode == 0, done.stderr
    settings = {"n_components": 6, "n_epochs": 3, "random_state": 0, "n_threads": 1}
    whole = two.run(jobs.fit, "DictionaryLearning", settings, data)
    for rank in range(2):
        model = somf.load(tmp_path / f"c.model{rank}")
        assert model.n_iter_ == whole[0][1]
        assert model.components_.tobytes() == whole[0][0].tobytes()


def test_the_command_starts_workers(data, tmp_path):
    output = tmp_path / "m.somf"
    options = (
        "--components",
        "6",
        "--validation",
        "0.1",
        "--threads",
        "1",
        "-q",
        "--json",
        "--epochs",
        "1",
    )
    done = run("-m", "somf", "fit", data, *options, "--workers", "2", "--state", "-o", output)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["samples_seen"] == 270
    assert "samples, " not in done.stderr  # nobody shows progress, with -q
    model = somf.load(output)
    assert model.n_samples_seen_ == 270
    assert model.partial_fit(np.load(data)).n_samples_seen_ == 570
    assert (tmp_path / "m.somf.toml").exists()


def test_a_command_line_is_given_to_workers_without_the_option():
    assert without_option(["fit", "--workers", "4", "x", "--workers=2", "-q"]) == ["fit", "x", "-q"]
