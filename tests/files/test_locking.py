"""Locks: one owner at a time, also after a kill; other files are left alone."""

import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from somf import DictionaryLearning
from somf.files import locking
from somf.files.locking import HAS_LOCKS, InUse, LockFile

pytestmark = pytest.mark.skipif(not HAS_LOCKS, reason="the system has no locks")

X = np.random.default_rng(0).standard_normal((30, 6))


def test_a_lock_has_one_owner_and_leaves_no_file(tmp_path):
    first, second = LockFile(str(tmp_path / "lock")), LockFile(str(tmp_path / "lock"))
    first.acquire()
    with pytest.raises(InUse) as caught:
        second.acquire()
    assert caught.value.owner == f"process {os.getpid()} on {socket.gethostname()}"
    first.release()
    assert os.listdir(tmp_path) == []
    second.acquire()
    second.release()
    second.release()
    assert os.listdir(tmp_path) == []


def test_a_lock_that_is_removed_while_it_is_acquired_is_made_again(tmp_path, monkeypatch):
    path = str(tmp_path / "lock")
    lock, try_to_lock, removed = LockFile(path), locking.try_to_lock, []

    def remove_first(handle):
        if not removed:
            removed.append(os.unlink(path))
        return try_to_lock(handle)

    monkeypatch.setattr(locking, "try_to_lock", remove_first)
    lock.acquire()
    with pytest.raises(InUse):
        LockFile(path).acquire()
    lock.release()


@pytest.mark.parametrize("kind", ["thesis", "pipe", "link", "folder"])
def test_a_file_that_is_no_lock_is_left_alone(tmp_path, kind):
    path = tmp_path / "c.lock"
    (tmp_path / "thesis").write_text("Chapter 1")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "thesis")
    else:
        path.write_text("Chapter 1")
    before = os.lstat(path)
    with pytest.raises(ValueError, match=r"only a file of its own as 'c\.lock'"):
        DictionaryLearning(2, checkpoint=tmp_path / "c").fit(X)
    assert os.lstat(path).st_ino == before.st_ino
    assert (tmp_path / "thesis").read_text() == "Chapter 1"


def test_the_folder_of_a_finished_fit_may_be_read_only(tmp_path, monkeypatch):
    model = DictionaryLearning(2, random_state=0, checkpoint=tmp_path / "c").fit(X)

    def read_only(path, flags, *args):
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(path)
        return opened(path, flags, *args)

    opened = os.open
    monkeypatch.setattr(os, "open", read_only)
    again = DictionaryLearning(2, random_state=0, checkpoint=tmp_path / "c").fit(X)
    np.testing.assert_array_equal(again.components_, model.components_)


PROGRAM = """
import sys
import numpy as np
from somf import DictionaryLearning

def wait(progress):
    print("running", flush=True)
    sys.stdin.readline()

X = np.random.default_rng(0).standard_normal((30, 6))
DictionaryLearning(2, n_epochs=1, random_state=0, checkpoint=sys.argv[1], callbacks=wait).fit(X)
"""


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "ended"])
def test_two_processes_do_not_share_a_checkpoint(tmp_path, is_killed):
    path = tmp_path / "c"
    params = {"n_components": 2, "n_epochs": 1, "random_state": 0, "checkpoint": path}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "running\n"
        (tmp_path / "c.abcd1234.part").touch()
        message = f"is used by process {other.pid} on {socket.gethostname()}"
        with pytest.raises(ValueError, match=message) as caught:
            DictionaryLearning(**params).fit(X)
        assert caught.value.name == "checkpoint"
        assert (tmp_path / "c.abcd1234.part").exists()
        if is_killed:
            other.send_signal(signal.SIGKILL)
        else:
            other.stdin.write("\n" * 10)
            other.stdin.flush()
        other.wait()
    expected = DictionaryLearning(2, n_epochs=1, random_state=0).fit(X)
    model = DictionaryLearning(**params).fit(X)
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert sorted(os.listdir(tmp_path)) == ["c", "c.previous"]


def test_without_locks_nothing_is_locked(tmp_path, monkeypatch):
    monkeypatch.setattr(locking, "fcntl", None)
    monkeypatch.setattr("somf.files.atomic.HAS_LOCKS", False)
    (tmp_path / "c.abcd1234.part").touch()
    DictionaryLearning(2, checkpoint=tmp_path / "c").fit(X)
    assert sorted(os.listdir(tmp_path)) == ["c", "c.previous"]
