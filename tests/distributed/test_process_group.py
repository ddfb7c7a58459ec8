"""Messages between ranks."""

import numpy as np
import pytest

from tests.distributed import jobs


def test_messages_reach_all_ranks(all_ranks):
    n = all_ranks.size
    for rank, found in enumerate(all_ranks.run(jobs.messages, "cpu")):
        large, counts = found["sums"]
        np.testing.assert_array_equal(large, np.arange(3000.0).reshape(3, 1000) * n * (n + 1) / 2)
        np.testing.assert_array_equal(counts, np.full(3, n * (n - 1) / 2))
        expected = np.add.outer(np.arange(5.0), np.arange(5.0)) * n * (n - 1) / 2
        np.testing.assert_array_equal(found["symmetric"], expected)
        assert found["number"] == 2.5 * n
        assert found["wishes"] == [False, True]
        assert found["any"] == (True, False)
        assert found["total"] == (n, n * (n - 1) / 2)
        np.testing.assert_array_equal(found["latest"], [n - 1, 0])
        assert [len(part) for part in found["gather"]] == list(range(n))
        assert found["tell"] == [{"rank": other} for other in range(n)]
        assert found["n"][:2] == (rank, n)


@pytest.mark.parametrize("reduction", [1, 4])
def test_a_step_sends_as_many_bytes_as_the_formula_says(all_ranks, reduction):
    k, p, size = 8, 8000, all_ranks.size
    settings = jobs.params(n_components=k, reduction=reduction, code_estimator="masked")
    sent = all_ranks.run(jobs.bytes_per_step, settings, p)
    n_blocks = 1 if reduction == 1 else 2
    # Small sums are sent whole to all.
    sums = (1 + n_blocks) * k * (k + 1) / 2 + k * (2 * k + 1)
    expected = 8 * (size - 1) * (2 * p / reduction * k / size + sums)
    for steps in sent:
        assert np.median(steps) == pytest.approx(expected, rel=0.02)


def test_ranks_work_while_they_wait_for_a_message(all_ranks):
    done = all_ranks.run(jobs.work_while_waiting)
    assert done[0] == 0  # all others have waited for this one
    assert all(0 < n <= jobs.IDLE_PIECES for n in done[1:])
