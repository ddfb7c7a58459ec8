"""When a fit records its progress."""

from itertools import pairwise

import pytest

from somf.training.record_times import RecordTimes


def records_until(times, end):
    """Return after how many samples records are due, from the start on."""
    found = [0]
    while found[-1] < end:
        found.append(times.next_after(found[-1]))
    return found


@pytest.mark.parametrize("every", [1, 7, 100, 64_001])
def test_every_interval_ends_with_a_record(every):
    assert records_until(RecordTimes(every, has_early=False), 5 * every) == [
        every * n for n in range(6)
    ]


@pytest.mark.parametrize("every", [1, 7, 100, 64_001])
def test_early_records_are_in_the_first_interval_only_and_each_comes_later(every):
    found = records_until(RecordTimes(every, has_early=True), 3 * every)
    assert found == sorted(set(found))
    assert [n for n in found if n >= every] == [every, 2 * every, 3 * every]
    early = [n for n in found if 0 < n < every]
    assert len(early) <= 6
    assert all(n <= 2 * before for before, n in pairwise([*early, every]))


def test_a_fit_that_resumes_between_records_has_the_same_next_one():
    times = RecordTimes(100, has_early=True)
    assert times.next_after(30) == times.next_after(25) == 50
