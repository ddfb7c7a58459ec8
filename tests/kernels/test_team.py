"""Teams: threads that do many short steps together."""

import numpy as np
import pytest

from somf.kernels.cpu.jit import inner
from somf.kernels.cpu.parallel import in_parallel
from somf.kernels.cpu.regions import region
from somf.kernels.cpu.team import (
    dismiss,
    new_team,
    publish,
    set_done,
    take_over,
    task,
    wait_for_step,
)
from somf.kernels.cpu.threads import threads


@inner
def add_what_others_have(member, values, sums):
    """Add the values of all members, which they have set in the step before."""
    total = 0.0
    for other in range(len(values)):
        total += values[other, 0]
    sums[member, 0] = total


@inner
def take_sum(member, values, sums):
    values[member, 0] = sums[member, 0] / len(values) + 1


@inner
def do_share(member, team, values, sums):
    if task(team)[0] == 0:
        add_what_others_have(member, values, sums)
    else:
        take_sum(member, values, sums)


@inner
def do_steps(member, team, n_steps, delay, values, sums):
    if member > 0:
        step = wait_for_step(team, member, 0)
        while step > 0:
            do_share(member, team, values, sums)
            set_done(team, member, step)
            step = wait_for_step(team, member, step)
        return
    for n in range(n_steps):
        for i in range(delay):
            sums[0, i % 8 + 8] += 1.0
        task(team)[0] = n % 2
        step = publish(team)
        while member >= 0:
            do_share(member, team, values, sums)
            set_done(team, member, step)
            member = take_over(team, step)
        member = 0
    dismiss(team)


@region
def run_team(launcher, size, n_steps, delay, values, sums):
    in_parallel(do_steps, launcher, size, new_team(size), n_steps, delay, values, sums)


def values_after(n_threads, size, n_steps, delay=0):
    """Return what members have after steps in which each needs the results of all others."""
    values, sums = np.zeros((size, 16)), np.zeros((size, 16))
    with threads(n_threads):
        run_team(n_threads, size, n_steps, delay, values, sums)
    return values[:, 0]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_every_step_sees_the_results_of_the_step_before(n_threads, size):
    # More members than threads: the leader does the shares of those who never come.
    np.testing.assert_array_equal(values_after(n_threads, size, 2000), np.full(size, 1000.0))


def test_the_leader_goes_on_after_followers_have_lost_their_patience():
    np.testing.assert_array_equal(values_after(2, 3, 6, delay=10**6), np.full(3, 3.0))
