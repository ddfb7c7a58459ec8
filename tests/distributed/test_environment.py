"""The variables of torchrun and of SLURM."""

import pytest

from somf.distributed.connection import timeout
from somf.distributed.environment import first_host, launched
from somf.errors import ParameterError

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "29500",
}
SLURM = {
    "SLURM_PROCID": "5",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "node[03-04,7],other",
    "SLURM_JOB_ID": "123456",
    "SLURM_STEP_ID": "0",
}


def test_a_process_without_variables_is_alone():
    assert launched({}) is None
    assert launched(TORCHRUN | {"WORLD_SIZE": "1", "RANK": "0"}) is None


def test_the_variables_of_torchrun_are_found():
    assert launched(TORCHRUN)[:5] == (3, 8, 1, "node1", 29500)


def test_the_variables_of_a_task_of_slurm_are_found():
    found = launched(SLURM)
    assert found[:4] == (5, 8, 1, "node03")
    assert found == launched(SLURM | {"SLURM_PROCID": "5"})
    assert 1024 < found.port < 65536


def test_an_address_that_is_given_is_used_under_slurm():
    found = launched(SLURM | {"MASTER_ADDR": "here", "MASTER_PORT": "1234"})
    assert (found.address, found.port) == ("here", 1234)


def test_a_batch_script_of_slurm_is_alone():
    batch = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "1"}
    assert launched(batch) is None


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("node1", "node1"),
        ("a[1-3]", "a1"),
        ("a[03,07-9]-ib,b", "a03-ib"),
        ("x,y", "x"),
        ("10.0.0.1", "10.0.0.1"),
    ],
)
def test_the_first_host_of_a_list_is_found(nodes, first):
    assert first_host(nodes) == first


@pytest.mark.parametrize(
    ("change", "name"),
    [({"RANK": "9"}, "RANK"), ({"WORLD_SIZE": "many"}, "WORLD_SIZE")],
)
def test_wrong_variables_are_named(change, name):
    with pytest.raises(ParameterError, match=name):
        launched(TORCHRUN | change)


def test_variables_without_an_address_are_an_error():
    with pytest.raises(ParameterError, match="MASTER_ADDR"):
        launched({"RANK": "0", "WORLD_SIZE": "2"})


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan"])
def test_a_wrong_time_out_is_named(monkeypatch, value):
    monkeypatch.setenv("SOMF_TIMEOUT", value)
    with pytest.raises(ParameterError, match="SOMF_TIMEOUT"):
        timeout()
