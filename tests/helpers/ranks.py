"""Several ranks on this machine, in processes that meet by a file.

A `Team` starts its processes once, and they do many jobs. They are forked from a process that has
imported all libraries and done a fit, so that they start in a moment.
"""

import multiprocessing
import os
import queue
import traceback
from contextlib import contextmanager
from datetime import timedelta
from itertools import count

TIMEOUT = 60
"""Seconds after which a job has failed."""

_numbers = count()
"""Numbers for the files by which teams meet."""


class RankFailure(Exception):  # noqa: N818 (the rank has the error)
    """An error of a rank, with its traceback as text."""


class Team:
    """Some processes that are the ranks of one group.

    Parameters
    ----------
    size : int
    folder : path-like
        Where the ranks meet.
    environment : dict, optional
        Variables of the processes.
    """

    def __init__(self, size, folder, environment=None):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.helpers.warm"])
        self.size = size
        self.jobs = [context.SimpleQueue() for _ in range(size)]
        self.results = context.Queue()
        place = os.path.join(folder, f"store{next(_numbers)}")
        self.processes = [
            context.Process(
                target=serve,
                args=(rank, size, place, self.jobs[rank], self.results, environment or {}),
                daemon=True,
            )
            for rank in range(size)
        ]
        for process in self.processes:
            process.start()

    def start(self, job, *args):
        """Let all ranks call a function ``job(rank, *args)``, without waiting for them."""
        for jobs in self.jobs:
            jobs.put((job, args))

    def run(self, job, *args, timeout=TIMEOUT):
        """Return what a function ``job(rank, *args)`` returns on each rank."""
        self.start(job, *args)
        answers = self.collect(self.size, timeout)
        for answer in answers.values():
            if isinstance(answer, RankFailure):
                raise answer
        return [answers[rank] for rank in range(self.size)]

    def collect(self, n, timeout=TIMEOUT):
        """Return the answers of n ranks, by rank; an error is a `RankFailure`."""
        answers = {}
        while len(answers) < n:
            try:
                rank, answer = self.results.get(timeout=timeout)
            except queue.Empty:
                raise AssertionError(f"only ranks {sorted(answers)} have answered") from None
            answers[rank] = answer
        return answers

    def close(self):
        """End all processes."""
        for process in self.processes:
            process.kill()
            process.join()


def serve(rank, size, place, jobs, results, environment):
    """Do jobs until the process is ended."""
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    os.environ.update(environment | {"LOCAL_RANK": str(rank)})
    distributed.init_process_group(
        "gloo",
        store=distributed.FileStore(place, size),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=TIMEOUT),
    )
    while True:
        job, args = jobs.get()
        try:
            answer = job(rank, *args)
        except BaseException as error:
            answer = RankFailure(f"{type(error).__name__}: {error}", traceback.format_exc())
        results.put((rank, answer))


@contextmanager
def team(size, folder, environment=None):
    """Give a team, and end it."""
    made = Team(size, folder, environment)
    try:
        yield made
    finally:
        made.close()
