"""Memory that the ranks of one machine share."""

import os
import subprocess
import sys

import numpy as np
import pytest

from somf.distributed.shared_memory import NO_FILE, _birth, _opened
from tests.distributed import jobs
from tests.helpers.ranks import team


def test_ranks_of_one_machine_share_memory_unless_told_not_to(two, two_by_gloo):
    assert two.run(jobs.shares_memory) == [True, True]
    assert two_by_gloo.run(jobs.shares_memory) == [False, False]


def test_messages_of_growing_and_shrinking_sizes_arrive_whole(ranks):
    n = ranks.size
    for rank, received in enumerate(ranks.run(jobs.exchange_sizes)):
        for size, parts in received.items():
            expected = [np.full(size, 100 * sender + rank) for sender in range(n)]
            np.testing.assert_array_equal(parts, expected)


def test_a_message_that_was_received_stays_as_it_is(two):
    for first, again in two.run(jobs.keep_messages):
        np.testing.assert_array_equal(first, again)


def test_memory_is_opened_only_if_it_begins_with_the_token():
    file, process = os.memfd_create("test"), os.getpid()
    os.write(file, b"token and more")
    opened = _opened(process, file, b"token")
    assert opened != NO_FILE
    os.close(opened)
    assert _opened(process, file, b"other") == NO_FILE
    os.close(file)
    assert _opened(process, file, b"token") == NO_FILE
    ends = os.pipe()
    assert _opened(process, ends[0], b"token") == NO_FILE
    for end in ends:
        os.close(end)


def test_ranks_that_do_different_things_are_told_so(tmp_path):
    pytest.importorskip("torch")
    with team(2, tmp_path) as ranks:
        for message in ranks.run(jobs.disagree):
            assert "sends something else" in message
        assert ranks.run(jobs.shares_memory) == [True, True]  # they can meet again


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="there is no /proc")
def test_the_end_of_a_process_is_seen_even_if_nobody_has_asked_for_its_status():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    birth = _birth(process.pid)
    assert birth
    assert _birth(process.pid) == birth
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is a zombie
    assert _birth(process.pid) == ""
    process.wait()
