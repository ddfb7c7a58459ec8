"""Ranks as processes of this machine, the steps of a fit on them, and the same steps without them.

The problem is dictionary learning of Indian Pines (p = 51,200, k = 100, averaged codes, float32).
Ranks talk by gloo, through the loopback interface.
"""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.scenes import ALPHA, K, indian_pines_cube, split_indian_pines
from somf import DictionaryLearning
from somf.algorithm.solver import Solver
from somf.data import loader_for
from somf.distributed import Alone, Communicator
from somf.distributed.connection import communicator_for
from somf.distributed.dealing import edges_of
from somf.distributed.spread import some_of
from somf.kernels import Kernels
from somf.penalties import AtomBall
from somf.training.minibatches import Minibatch, epochs
from somf.training.start import divide, hold_out, start
from somf.typing import Array, Slices

REDUCTION = 4
"""r of the measurements of time."""

STRONG_BATCH = 400
"""Samples of a minibatch on all ranks, however many there are."""

WARM_UP = 6
"""Steps before time is measured: kernels are compiled, buffers allocated."""

TIMEOUT = 600
"""Seconds for one job of all ranks."""


def run_ranks(
    size: int, job: Callable[[], Any], environment: dict[str, str] | None = None
) -> list[Any]:
    """Return what a job returns on each of some new processes; None for those that were killed."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        results = context.Queue()
        processes = [
            context.Process(
                target=_serve, args=(rank, size, f"{folder}/store", job, results, environment or {})
            )
            for rank in range(size)
        ]
        for process in processes:
            process.start()
        answers: dict[int, Any] = {}
        end = time.monotonic() + TIMEOUT
        while len(answers) < size and time.monotonic() < end:
            while not results.empty():
                answers.update([results.get()])
            if not any(process.is_alive() for process in processes) and results.empty():
                break
            time.sleep(0.05)
        for process in processes:
            process.kill()
            process.join()
    return [answers.get(rank) for rank in range(size)]


def _serve(
    rank: int,
    size: int,
    place: str,
    job: Callable[[], Any],
    results: Any,
    environment: dict[str, str],
) -> None:
    import torch
    from torch import distributed

    os.environ.update(environment)
    torch.set_num_threads(1)
    if size > 1:
        distributed.init_process_group(
            "gloo",
            store=distributed.FileStore(place, size),
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=TIMEOUT),
        )
    results.put((rank, job()))
    results.close()
    results.join_thread()


def patches_of(cube: Path | None) -> Any:
    """Return the training patches of Indian Pines, from a file or as tensorly ships them."""
    return split_indian_pines(indian_pines_cube() if cube is None else np.load(cube))[0]


class Steps:
    """A fit that is advanced step by step.

    Parameters
    ----------
    patches : Source
    reduction : float
    batch_size : int
        On all ranks.
    ranks : Communicator, optional
        By default that of the process group of this process.
    """

    def __init__(
        self,
        patches: Any,
        reduction: float,
        batch_size: int,
        ranks: Communicator | None = None,
    ) -> None:
        self.ranks = communicator_for("cpu") if ranks is None else ranks
        model = DictionaryLearning(
            K, alpha=ALPHA, reduction=reduction, batch_size=batch_size, n_epochs=1000
        )
        n, p = patches.shape
        config = model._requested_config().for_features(p).for_samples(n, p)
        rows = divide(patches, False, self.ranks)
        samples = hold_out(patches, None, 0, rows).samples
        state = start(config, patches, samples, 0, True, self.ranks)
        self.loader = loader_for("cpu", patches, state.dtype, state.permutation)
        self.solver, self.samples = Solver(config, state, self.ranks), samples
        self.minibatches = epochs(self.loader, samples, 0, lambda: batch_size, config.n_epochs)

    def learn(self, minibatch: Minibatch) -> None:
        """Learn from a minibatch; the next one is loaded while this rank waits for messages."""
        ids, X, size = minibatch
        with self.ranks.when_idle(self.loader.advance):
            self.solver.step(X, self.samples.slots(ids), size)

    def advance(self) -> float:
        """Do one step; return its milliseconds."""
        begin = time.perf_counter()
        self.learn(next(self.minibatches))
        return 1e3 * (time.perf_counter() - begin)


class Silent(Alone):
    """A rank that does its part of the work, and neither sends nor waits.

    What it makes of its rows of D is thrown away, as are Gram matrices of a part of the rows
    (`SilentSteps`): codes are those on a dictionary that stays as it is.

    Parameters
    ----------
    rank, n_ranks : int
    """

    def __init__(self, rank: int, n_ranks: int) -> None:
        super().__init__()
        self._rank, self._n_ranks = rank, n_ranks

    def part_of(self, rows: slice) -> slice:
        """Return the part of a rank."""
        edges = edges_of(rows.stop - rows.start, self._n_ranks)
        first, last = (rows.start + int(edge) for edge in edges[self._rank : self._rank + 2])
        return slice(first, last)

    def atom_update(self, kernels: Kernels, ball: AtomBall) -> Any:  # noqa: ARG002 (protocol)
        """Return a function that updates the rows of this rank, in a copy."""

        def update(D: Array, B: Array, C: Array, rows: Slices, budget: Array) -> None:
            own = self.part_of(slice(0, sum(s.stop - s.start for s in rows)))
            n_own = own.stop - own.start
            D_own, B_own = (kernels.zeros((n_own, K), B) for _ in range(2))
            some = some_of(rows, own.start, n_own)
            kernels.pack_rows(D, some, D_own)
            kernels.pack_rows(B, some, B_own)
            kernels.update_part(D_own, B_own, C, budget, lambda gram: gram)

        return update


class SilentSteps(Steps):
    """The steps of a fit in which every process has the work of one of several ranks.

    Parameters
    ----------
    patches : Source
    reduction : float
    batch_size : int
        On all ranks; a step of this process takes its part.
    rank, n_ranks : int
    n_learned : int
        Steps with the whole work at the beginning, so that atoms are no longer samples.
    """

    def __init__(
        self,
        patches: Any,
        reduction: float,
        batch_size: int,
        rank: int,
        n_ranks: int,
        n_learned: int = WARM_UP,
    ) -> None:
        super().__init__(patches, reduction, batch_size // n_ranks, Alone())
        for _ in range(n_learned):
            super().advance()
        state = self.solver.state
        self.solver = Solver(self.solver.config, state, Silent(rank, n_ranks))
        self._kept = state.grams.copy(), state.norms.copy()

    def advance(self) -> float:
        """Do one step; return its milliseconds."""
        milliseconds = super().advance()
        self.restore()
        return milliseconds

    def restore(self) -> None:
        """Let the state have the Gram matrices and norms of its dictionary again."""
        self.solver.state.grams[:], self.solver.state.norms[:] = self._kept


class Place(NamedTuple):
    """Which of how many processes this is."""

    rank: int
    size: int


def place_of_process() -> Place:
    """Return the place in the group of torch, if this process is in one."""
    from torch import distributed

    if not distributed.is_initialized():
        return Place(0, 1)
    return Place(distributed.get_rank(), distributed.get_world_size())


def meet() -> None:
    """Wait for the other processes of this one's group, if there are any."""
    from torch import distributed

    if distributed.is_initialized():
        distributed.barrier()


def pin(rank: int, n_ranks: int) -> None:
    """Let this process, and threads that it starts from now on, run on its part of the cores.

    Hardware threads of one core are neighbours in the order that is divided.
    """
    cpus = sorted(os.sched_getaffinity(0), key=lambda cpu: (*_core_of(cpu), cpu))
    edges = edges_of(len(cpus), n_ranks).tolist()
    os.sched_setaffinity(0, cpus[edges[rank] : edges[rank + 1]])


def _core_of(cpu: int) -> tuple[int, int]:
    folder = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    package, core = (
        int((folder / name).read_text()) for name in ("physical_package_id", "core_id")
    )
    return package, core


def topology() -> dict[str, int]:
    """Return how many sockets, cores and hardware threads Linux says there are for this process."""
    cpus = os.sched_getaffinity(0)
    cores = {_core_of(cpu) for cpu in cpus}
    return {
        "sockets": len({package for package, _ in cores}),
        "cores": len(cores),
        "hardware threads": len(cpus),
    }
