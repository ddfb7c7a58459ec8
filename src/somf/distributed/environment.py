"""Was this process started as one of several? The variables of torchrun and of SLURM tell."""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from somf.errors import ParameterError

FIRST_PORT = 20_000
"""The first port that a SLURM job may meet on."""

N_PORTS = 20_000
"""How many ports there are to choose from; the number of the job chooses."""

THREAD_SETTINGS = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
"""Environment variables for several ranks on one machine.

torchrun sets one thread and says so; somf divides the cores among the ranks. Threads that spin
while they wait take a core from those that carry the messages.
"""


class Launch(NamedTuple):
    """How this process was started.

    Attributes
    ----------
    rank, size : int
    local_rank : int
        The rank among the processes of this machine.
    address : str
        Where rank 0 runs.
    port : int
    launcher : str
        In words.
    """

    rank: int
    size: int
    local_rank: int
    address: str
    port: int
    launcher: str


def launched(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """Return how this process was started, or None if it was started alone.

    ``torchrun`` sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. ``srun`` sets
    variables of its own for every task; the batch script itself has no SLURM_STEP_NUM_TASKS.
    """
    if "RANK" in environment and "WORLD_SIZE" in environment:
        return _launch(environment, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK")
    if "SLURM_PROCID" in environment and "SLURM_STEP_NUM_TASKS" in environment:
        return _launch(environment, "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
    return None


def _launch(environment: Mapping[str, str], launcher: str, *names: str) -> Launch | None:
    rank, size, local_rank = (_number(environment, name) for name in names)
    if size <= 1:
        return None
    if not 0 <= rank < size:
        raise ParameterError(names[0], f"be less than {names[1]}, {size}", rank)
    if "MASTER_ADDR" in environment:
        address, port = environment["MASTER_ADDR"], _number(environment, "MASTER_PORT")
    elif launcher == "srun":
        address = first_host(environment.get("SLURM_STEP_NODELIST", "localhost"))
        job = _number(environment, "SLURM_JOB_ID") + _number(environment, "SLURM_STEP_ID")
        port = FIRST_PORT + job % N_PORTS
    else:
        raise ParameterError("MASTER_ADDR", "be set where RANK and WORLD_SIZE are", None)
    return Launch(rank, size, local_rank, address, port, launcher)


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment.get(name, "0"))
    except ValueError:
        raise ParameterError(name, "be an integer", environment[name]) from None


def first_host(nodes: str) -> str:
    """Return the first host of a list of SLURM, such as ``node[03-05,9],other``."""
    found = re.match(r"([^,\[]+)(?:\[(\d+)[^\]]*\]([^,]*))?", nodes)
    return nodes if found is None else "".join(part or "" for part in found.groups())
