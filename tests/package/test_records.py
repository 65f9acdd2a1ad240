"""What install and attach find changed since: a prefix that was moved, damaged records, links that lead nowhere,
folders that cannot be written (softnpu/command/install.py, attach.py)."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
from anycend import attach, failure, install, root
from anycend.__main__ import main

from tests.package.test_prefix import tree
from tests.package.test_root import vendor_site

DAMAGED = (
    "", "no record", "[]", "5", "{}", '{"links": {"a": 5}}', '{"root": "/r", "links": {"a": 5}, "folders": []}',
    '{"root": "/r", "links": {"../a": "/b"}, "folders": []}', '{"root": "/r", "links": 3, "folders": []}',
    '{"root": "/r", "links": {}, "folders": [1]}', '{"root": "/r", "links": {}, "folders": [], "prefix": 7}',
    "[" * 100_000,
    '{"root": 1, "links": ["a"]}', '{"root": "/r", "links": ["../a"]}', '{"root": "/r", "links": {"a": 1}}', "\udcff",
)  # fmt: skip


def one_line(capsys) -> str:
    said = capsys.readouterr().err
    assert said.startswith("anycend: ") and said.count("\n") == 1
    return said


@pytest.mark.parametrize("older", [False, True])
def test_a_prefix_that_was_moved_is_installed_into_again_and_uninstalled(tmp_path, older):
    for verb in ("install", "uninstall"):
        old, new = tmp_path / "made" / "Ascend", tmp_path / f"moved-{verb}"
        install.install(root(), old)
        if older:  # a record of a version that did not say where it was
            record = json.loads((old / install.RECORD).read_text())
            del record["prefix"]
            (old / install.RECORD).write_text(json.dumps(record))
        old.rename(new)
        assert main([verb, "--prefix", str(new)]) == 0
        if verb == "install":
            assert (new / "nnae/latest").resolve() == root().resolve()
            assert main(["uninstall", "--prefix", str(new)]) == 0
        assert not new.exists() and list((tmp_path / "made").iterdir()) == []


def test_a_prefix_by_another_name_is_the_same(tmp_path):
    install.install(root(), tmp_path / "made" / "Ascend")
    (tmp_path / "link").symlink_to(tmp_path / "made" / "Ascend")
    install.install(root(), tmp_path / "link")
    assert install.uninstall(tmp_path / "made" / "Ascend")[1] == len(install.LINKS)
    assert not (tmp_path / "made" / "Ascend" / "nnae").exists()


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_record_is_named(text, tmp_path, capsys):
    prefix, site = tmp_path / "Ascend", vendor_site(tmp_path / "site")
    prefix.mkdir()
    (site / "torch_npu.libs").mkdir()
    places = [prefix / install.RECORD, site / "torch_npu.libs" / attach.RECORD]
    for place in places:
        place.write_text(text, errors="surrogateescape")
    before = sorted(path for path in tmp_path.rglob("*"))
    for verb in ("install", "uninstall"):
        assert main([verb, "--prefix", str(prefix)]) == 1
        assert f"{places[0]} cannot be read (" in one_line(capsys)
    for verb in ("attach", "detach"):
        assert main([verb, "--site-packages", str(site)]) == 1
        assert f"{places[1]} cannot be read (" in one_line(capsys)
    assert sorted(path for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["ascend-toolkit", "nnae", "driver", "cann-8.5.0"])
def test_a_link_that_leads_nowhere_is_no_place_of_ours(name, tmp_path, capsys):
    (tmp_path / name).symlink_to("/gone")
    assert main(["install", "--prefix", str(tmp_path)]) == 1
    assert f"{tmp_path / name} was not made by anycend" in one_line(capsys)
    assert tree(tmp_path) == {name: "/gone"}


def test_a_prefix_that_is_a_link_that_leads_nowhere(tmp_path, capsys):
    (tmp_path / "Ascend").symlink_to("/gone")
    for place in ("Ascend", "Ascend/below"):
        assert main(["install", "--prefix", str(tmp_path / place)]) == 1
        assert f"{tmp_path / 'Ascend'} is a link that leads nowhere, to /gone: remove it" in one_line(capsys)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("verb", ["install", "attach"])
def test_what_fails_half_way_leaves_nothing(verb, before, tmp_path, monkeypatch, capsys):
    site = vendor_site(tmp_path / "site")
    words = {"install": ["--prefix", str(tmp_path / "new" / "Ascend")], "attach": ["--site-packages", str(site)]}[verb]
    was = tree(tmp_path)
    if before:
        assert main([verb, *words]) == 0
        capsys.readouterr()
    real, count = Path.symlink_to, 0

    def symlink_to(self, target, *more):
        nonlocal count
        count += 1
        if count == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target), None, str(self))
        real(self, target, *more)

    monkeypatch.setattr(Path, "symlink_to", symlink_to)
    assert main([verb, *words]) == 1
    assert "No space left on device: make room there" in one_line(capsys)
    assert tree(tmp_path) == was


def test_a_record_that_cannot_be_written_names_the_folder(tmp_path, monkeypatch, capsys):
    def write_text(self, *arguments, **more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", write_text)
    assert main(["install", "--prefix", str(tmp_path / "Ascend")]) == 1
    assert one_line(capsys) == f"anycend: {tmp_path / 'Ascend'}: No space left on device: make room there\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("inner", ["", "nnae"])
@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_a_folder_without_the_right_to_write_is_left_as_it_is(verb, inner, tmp_path, monkeypatch, capsys):
    prefix = tmp_path / "Ascend"
    install.install(root(), prefix)
    before = tree(prefix)
    real = os.access
    monkeypatch.setattr(failure.os, "access", lambda path, *more: Path(path) != prefix / inner and real(path, *more))
    assert main([verb, "--prefix", str(prefix)]) == 1
    assert f"{prefix / inner}: Permission denied: the folder belongs to another user: sudo " in one_line(capsys)
    assert tree(prefix) == before


def test_a_file_or_a_dead_link_where_the_vendors_libraries_belong(tmp_path, capsys):
    site = vendor_site(tmp_path / "site")
    (site / "torch_npu.libs").touch()
    for verb in ("attach", "detach"):
        assert main([verb, "--site-packages", str(site)]) == 1
        assert f"{site / 'torch_npu.libs'} is a file" in one_line(capsys)
    (site / "torch_npu.libs").unlink()
    (site / "torch_npu.libs").symlink_to("/gone")
    assert main(["attach", "--site-packages", str(site)]) == 1
    assert "is a link that leads nowhere, to /gone" in one_line(capsys)


def test_a_folder_of_libraries_without_the_right_to_write(tmp_path, monkeypatch, capsys):
    site = vendor_site(tmp_path / "site")
    attach.attach(root(), site)
    before = tree(site)
    monkeypatch.setattr(failure.os, "access", lambda *_: False)
    for verb in ("attach", "detach"):
        assert main([verb, "--site-packages", str(site)]) == 1
        assert f"{site / 'torch_npu.libs'}: Permission denied" in one_line(capsys)
    assert tree(site) == before


def test_attach_again_takes_another_root(tmp_path):
    site = vendor_site(tmp_path / "site")
    other = tmp_path / "other"
    (other / "lib64").mkdir(parents=True)
    (other / "lib64" / "libascendcl.so").touch()
    attach.attach(other, site)
    shutil.rmtree(other)  # an environment that is gone
    folder, count = attach.attach(root(), site)
    assert count > 10 and (folder / "libascendcl.so").resolve() == (root() / "lib64/libascendcl.so").resolve()
    assert attach.detach(site)[1] == count and not folder.exists()
