"""Find the process group of torch, or make it, and give the communicator of its ranks."""

import atexit
import os
import platform
import sys
from datetime import timedelta
from typing import Any

from somf.distributed.communicator import Alone, Communicator
from somf.distributed.environment import Launch, launched
from somf.distributed.failures import Witness
from somf.distributed.process_group import ProcessGroup
from somf.distributed.shared_memory import make_shared_memory
from somf.errors import ParameterError, RankError
from somf.optional import import_optional

TIMEOUT = 300.0
"""Seconds after which a rank that does not answer counts as failed."""

TIMEOUT_VARIABLE = "SOMF_TIMEOUT"
"""The environment variable with another number of seconds."""

GRACE = 30.0
"""Seconds by which torch waits longer than somf, so that somf says what has happened."""

_groups: dict[bool, ProcessGroup] = {}
"""The communicators of this process, without and with a GPU."""


def communicator_for(device: str) -> Communicator:
    """Return the communicator of the ranks that were started together with this process.

    These are the ranks of the process group of torch, if the program has made one. If not, the
    variables of torchrun or SLURM tell whether there are others, and the group is made.

    Parameters
    ----------
    device : {"cpu", "cuda"}
    """
    torch = sys.modules.get("torch")
    is_made = torch is not None and _is_initialized(torch)
    launch = launched()
    if not is_made and launch is None:
        return Alone()
    torch = import_optional("torch", "distributed", "A fit on several ranks")
    import_optional("torch.distributed", "distributed", "A fit on several ranks")
    if not is_made and launch is not None:
        _initialize(torch, launch)
    if torch.distributed.get_world_size() == 1:
        return Alone()
    uses_gpu = device == "cuda" and torch.cuda.is_available()
    group = _groups.get(uses_gpu)
    if group is None or group.is_broken:
        if group is not None:
            group.close()
        group = _groups[uses_gpu] = _connect(torch, uses_gpu, launch)
    group.forget_wishes()
    return group


def rank_of_launch() -> int:
    """Return the rank of this process, without meeting others; 0 if it is alone."""
    torch = sys.modules.get("torch")
    if torch is not None and _is_initialized(torch):
        return int(torch.distributed.get_rank())
    launch = launched()
    return 0 if launch is None else launch.rank


def _is_initialized(torch: Any) -> bool:
    distributed = getattr(torch, "distributed", None)
    return bool(
        distributed is not None and distributed.is_available() and distributed.is_initialized()
    )


def timeout() -> float:
    """Return the seconds after which a rank that does not answer counts as failed."""
    given = os.environ.get(TIMEOUT_VARIABLE)
    try:
        seconds = TIMEOUT if given is None else float(given)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ParameterError(TIMEOUT_VARIABLE, "be a positive number of seconds", given)
    return seconds


def _initialize(torch: Any, launch: Launch) -> None:
    """Meet the other ranks."""
    distributed = torch.distributed
    try:
        store = distributed.TCPStore(
            launch.address,
            launch.port,
            launch.size,
            is_master=launch.rank == 0 and "TORCHELASTIC_USE_AGENT_STORE" not in os.environ,
            timeout=timedelta(seconds=timeout()),
            wait_for_workers=False,
        )
        restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        distributed.init_process_group(
            "gloo",
            store=distributed.PrefixStore(f"somf/attempt{restart}", store),
            rank=launch.rank,
            world_size=launch.size,
            timeout=timedelta(seconds=timeout()),
        )
    except RuntimeError as error:
        raise RankError(
            [rank for rank in range(launch.size) if rank != launch.rank],
            launch.size,
            f"cannot be met at {launch.address}:{launch.port} (started by {launch.launcher}; "
            f"{str(error).partition(chr(10))[0]}).",
        ) from error
    atexit.register(part)


def meet(launch: Launch) -> None:
    """Make the process group of some ranks, which `communicator_for` then finds."""
    torch = import_optional("torch", "distributed", "A fit on several ranks")
    import_optional("torch.distributed", "distributed", "A fit on several ranks")
    _initialize(torch, launch)


def part() -> None:
    """Leave the process group, so that another one can be made."""
    torch = sys.modules.get("torch")
    for group in _groups.values():
        group.close()
    _groups.clear()
    if torch is not None and _is_initialized(torch):
        torch.distributed.destroy_process_group()


def _connect(torch: Any, uses_gpu: bool, launch: Launch | None) -> ProcessGroup:
    """Make groups of our own, with our time-out, among the ranks of the program's group."""
    distributed = torch.distributed
    rank, size = distributed.get_rank(), distributed.get_world_size()
    longer = timedelta(seconds=timeout() + GRACE)
    n_made = _count["groups"] = _count["groups"] + 1
    shared = distributed.distributed_c10d._get_default_store()
    witness = Witness(distributed.PrefixStore(f"somf/group{n_made}", shared), rank, size)
    witness.introduce()
    group = distributed.new_group(backend="gloo", timeout=longer)
    made = ProcessGroup(torch, group, None, witness, timeout())
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    place = [platform.node(), cores]
    made.n_beside = made.tell(place).count(place)
    made.shared_memory = make_shared_memory(made)
    if uses_gpu:
        _choose_gpu(torch, launch)
        facts = made.tell([platform.node(), torch.cuda.current_device()])
        # NCCL wants a GPU for every rank.
        if distributed.is_nccl_available() and len({tuple(fact) for fact in facts}) == size:
            made.device_group = distributed.new_group(backend="nccl", timeout=longer)
    return made


_count = {"groups": 0}
"""How many groups this process has made: as many as all other ranks."""


def _choose_gpu(torch: Any, launch: Launch | None) -> None:
    """Use the GPU of this rank, unless the program has chosen one by other means."""
    local_rank = int(os.environ.get("LOCAL_RANK", "0")) if launch is None else launch.local_rank
    torch.cuda.set_device(local_rank % torch.cuda.device_count())
