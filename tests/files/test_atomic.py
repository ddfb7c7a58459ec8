"""Atomic writes: the old file or the new one, and nothing else."""

import errno
import os

import pytest

from somf.files.atomic import atomic_write, remove_leftovers
from somf.files.locking import HAS_LOCKS


def write(path, text, **options):
    with atomic_write(path, **options) as temporary, open(temporary, "w") as file:
        file.write(text)


def fail(path, error, is_folder=False):
    with atomic_write(path, is_folder=is_folder) as temporary:
        write(os.path.join(temporary, "content") if is_folder else temporary, "half")
        raise error


def write_folder(path, text):
    with atomic_write(path, is_folder=True) as temporary:
        write(os.path.join(temporary, "content"), text)


def test_a_file_has_its_name_only_when_it_is_complete(tmp_path):
    path = tmp_path / "file"
    with atomic_write(path) as temporary:
        assert os.path.dirname(temporary) == str(tmp_path)
        assert not path.exists()
    assert path.read_bytes() == b""
    write(path, "new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_relative_name_is_written_to_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("file", "text", fsync=True)
    remove_leftovers("file")
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, SystemExit])
def test_an_error_keeps_the_old_file_and_removes_the_temporary_one(tmp_path, error):
    path = tmp_path / "file"
    write(path, "old")
    with pytest.raises(error):
        fail(path, error)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_is_written_and_replaced_as_a_whole(tmp_path):
    path = tmp_path / "array.zarr"
    for text in ("old", "new"):
        write_folder(f"{path}{os.sep}", text)
        assert (path / "content").read_text() == text
    with pytest.raises(OSError, match="on purpose"):
        fail(path, OSError("on purpose"), is_folder=True)
    assert (path / "content").read_text() == "new"
    assert os.listdir(tmp_path) == ["array.zarr"]


def test_a_file_never_replaces_a_folder(tmp_path):
    write_folder(tmp_path / "folder", "precious")
    with pytest.raises(OSError, match="folder"):
        write(tmp_path / "folder", "text")
    assert (tmp_path / "folder" / "content").read_text() == "precious"
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_rename_that_fails_keeps_the_old_content(tmp_path, monkeypatch, is_folder):
    path = str(tmp_path / "name")
    write_again = write_folder if is_folder else write
    write_again(path, "old")
    replace = os.replace

    def failing(one, other):
        if other == path and one.endswith(".part") and not failures:
            failures.append(one)
            raise OSError("on purpose")
        replace(one, other)

    failures = []
    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="on purpose"):
        write_again(path, "new")
    with open(os.path.join(path, "content") if is_folder else path) as file:
        assert file.read() == "old"
    assert failures
    assert os.listdir(tmp_path) == ["name"]


def test_the_file_that_is_replaced_may_be_kept(tmp_path):
    for text in ("one", "two", "three"):
        write(tmp_path / "file", text, previous=tmp_path / "before")
    assert (tmp_path / "file").read_text() == "three"
    assert (tmp_path / "before").read_text() == "two"
    assert sorted(os.listdir(tmp_path)) == ["before", "file"]


@pytest.mark.skipif(os.name == "nt", reason="there are no such permissions")
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_the_permissions_are_those_of_any_new_file(tmp_path, umask):
    before = os.umask(umask)
    try:
        write(tmp_path / "file", "")
        write_folder(tmp_path / "folder", "")
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert os.stat(tmp_path / "file").st_mode & 0o777 == 0o666 & ~umask
    assert os.stat(tmp_path / "folder").st_mode & 0o777 == 0o777 & ~umask


def test_a_file_is_on_the_disk_before_its_name_is(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: calls.append("fsync") or fsync(handle))
    monkeypatch.setattr(os, "replace", lambda *names: calls.append("replace") or replace(*names))
    write(tmp_path / "file", "text", fsync=True)
    assert calls[:2] == ["fsync", "replace"]
    calls.clear()
    write(tmp_path / "file", "text")
    assert calls == ["replace"]


def test_leftovers_of_killed_processes_are_removed_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    (leftover := tmp_path / "file.1234abcd.part").touch()
    others = ["file.mine.part", "file.part", "other.abcd1234.part", "thesis.part"]
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / "file.abcd1234.part").mkdir()
    remove_leftovers(path)
    assert not os.path.exists(leftover)
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "file.abcd1234.part"])


@pytest.mark.skipif(not HAS_LOCKS, reason="the system has no locks")
def test_a_file_that_is_being_written_is_not_taken_for_a_leftover(tmp_path):
    with atomic_write(tmp_path / "file") as temporary:
        remove_leftovers(tmp_path / "file")
        assert os.path.exists(temporary)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("has_links", [True, False])
def test_the_old_file_is_there_until_the_new_one_is(tmp_path, monkeypatch, has_links):
    path, before, replace = tmp_path / "file", tmp_path / "before", os.replace

    def look(*names):
        assert path.read_text() in ("old", "older")
        replace(*names)

    def no_links(*_):
        raise OSError("on purpose")

    write(path, "older")
    monkeypatch.setattr(os, "replace", look)
    if not has_links:
        monkeypatch.setattr(os, "link", no_links)
    for text in ("old", "new"):
        write(path, text, previous=before)
    assert (path.read_text(), before.read_text()) == ("new", "old")
    assert sorted(os.listdir(tmp_path)) == ["before", "file"]


def test_two_names_of_one_file_are_no_obstacle(tmp_path):
    # As after a kill between the two steps of a write.
    write(tmp_path / "file", "old")
    os.link(tmp_path / "file", tmp_path / "before")
    write(tmp_path / "file", "new", previous=tmp_path / "before")
    assert (tmp_path / "before").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["before", "file"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_what_is_not_a_regular_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        write(tmp_path / "pipe", "text")
    assert os.listdir(tmp_path) == ["pipe"]


def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    path = tmp_path / "model"
    for is_folder, inner in ((False, ""), (True, "/c/0")):
        with (
            pytest.raises(OSError, match="disk") as caught,
            atomic_write(path, is_folder=is_folder) as temporary,
        ):
            raise OSError(5, "disk", f"{temporary}{inner}")
        assert caught.value.filename == f"{path}{inner}"
    with pytest.raises(OSError, match="full") as caught, atomic_write(path):
        raise OSError(errno.ENOSPC, "full")
    assert caught.value.filename == str(path)
    with pytest.raises(OSError, match="lost") as caught, atomic_write(path):
        raise OSError(errno.EIO, "lost", "data.npy")  # another file, which was being read
    assert caught.value.filename == "data.npy"
