"""A rank that fails ends the fit of all, with an error that names it."""

import time

import pytest

import somf
from tests.distributed import jobs
from tests.helpers.ranks import team

MOST_SECONDS = 2.0
"""From the death of a rank to the error on all others, on a machine with a core for each."""


def failed(size, folder, which, how, **environment):
    """Let a rank fail; return the answers of the others, by rank, and when it failed."""
    note = folder / f"note{which}"
    environment = {name: str(value) for name, value in environment.items()}
    with team(size, folder, {"SOMF_TEST_NOTE": str(note)} | environment) as ranks:
        ranks.start(jobs.fail, which, how)
        answers = ranks.collect(size - 1 if how != "raise" else size)
        return answers, float(note.read_text())


@pytest.mark.parametrize(("which", "shares_memory"), [(0, 1), (1, 1), (2, 1), (1, 0)])
def test_a_rank_that_is_killed_is_named_by_all_others(tmp_path, which, shares_memory):
    pytest.importorskip("torch")
    answers, _ = failed(3, tmp_path, which, "kill", SOMF_SHARED_MEMORY=shares_memory)
    assert sorted(answers) == [rank for rank in range(3) if rank != which]
    for name, message, _ in answers.values():
        assert name == "RankError"
        assert message.startswith(f"Rank {which} of 3 does not answer: it was killed, or hangs")
        assert "process " in message


def test_an_error_of_a_rank_is_raised_there_and_told_to_all_others(tmp_path):
    pytest.importorskip("torch")
    answers, _ = failed(3, tmp_path, 1, "raise")
    assert answers[1][:2] == ("InterruptedError", "at iteration 4")
    for rank in (0, 2):
        name, message, _ = answers[rank]
        assert name == "RankError"
        assert message.startswith("Rank 1 of 3 has failed (process ")
        assert message.endswith("InterruptedError: at iteration 4")


def test_a_rank_that_hangs_is_named_after_the_time_out(tmp_path):
    pytest.importorskip("torch")
    answers, begin = failed(3, tmp_path, 1, "hang", SOMF_TIMEOUT=2)
    for rank in (0, 2):
        name, message, end = answers[rank]
        assert name == "RankError"
        assert message.startswith("Rank 1 of 3 does not answer")
        assert end - begin < 30  # it has not waited until the rank came back
    assert time.time() > begin


def test_sigterm_on_one_rank_leaves_a_checkpoint_of_all(two, tmp_path):
    path = tmp_path / "c"
    first, second = two.run(jobs.terminate, 1, path, 1000)
    assert second == "SystemExit: 143"
    assert first.startswith("RankError: Rank 1 of 2 has failed")
    assert "SystemExit: 143" in first
    assert somf.load(path).n_iter_ in (5, 6)  # all ranks know of the signal one iteration later
    assert two.run(jobs.terminate, None, path, 3) == [None, None]
    assert somf.load(path).n_iter_ == 15
