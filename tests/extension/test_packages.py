"""Packages of custom operators: found by the plugin and through aclnn<X> by name, in the documented order."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests import forked
from tests.extension import build
from tests.runtime.acl import library_folder

CODE = """
import os, torch
torch.ops.load_library(os.environ["CONTRACT"])
print(torch.ops.contract.scaled(torch.tensor([1.0, 2.0], device="npu"), 3.0).tolist())
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """two/ and five/ in a folder of packages, and as vendors of an opp folder."""
    folder = tmp_path_factory.mktemp("packages")
    for name, factor in (("two", 2.0), ("five", 5.0)):
        build.package(folder / name, factor)
        vendor = folder / "opp" / "vendors" / name
        vendor.parent.mkdir(parents=True, exist_ok=True)
        vendor.symlink_to(folder / name)
    return folder


def run(contract: Path, code: str = CODE, **variables: str) -> subprocess.CompletedProcess:
    keep = {k: v for k, v in os.environ.items() if not k.startswith("ASCEND_")}
    own = {**keep, "CONTRACT": str(contract), **variables}
    return forked.run(["-c", code], env=own, cwd="/", timeout=300)


def scaled(contract: Path, **variables: str) -> str:
    done = run(contract, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def priority(packages: Path, order: str) -> str:
    (packages / "opp" / "vendors" / "config.ini").write_text(f"load_priority={order}\n")
    return str(packages / "opp")


def test_a_named_package_is_found(contract, packages):
    assert scaled(contract, ASCEND_CUSTOM_OPP_PATH=str(packages / "two")) == "[6.0, 12.0]"


def test_the_first_of_several_wins(contract, packages):
    assert scaled(contract, ASCEND_CUSTOM_OPP_PATH=f"{packages}/five:{packages}/two") == "[15.0, 30.0]"
    assert scaled(contract, ASCEND_CUSTOM_OPP_PATH=f"{packages}/nothing:{packages}/two") == "[6.0, 12.0]"


def test_vendors_follow_their_priority(contract, packages):
    assert scaled(contract, ASCEND_OPP_PATH=priority(packages, "two,five")) == "[6.0, 12.0]"
    assert scaled(contract, ASCEND_OPP_PATH=priority(packages, "five, two")) == "[15.0, 30.0]"


def test_the_priority_may_begin_with_a_byte_order_mark(contract, packages):
    opp = priority(packages, "five")
    config = packages / "opp" / "vendors" / "config.ini"
    config.write_bytes(b"\xef\xbb\xbf" + config.read_bytes())
    assert scaled(contract, ASCEND_OPP_PATH=opp) == "[15.0, 30.0]"


def test_a_folder_whose_name_is_no_utf8_is_told(contract, packages, tmp_path):
    named = tmp_path / os.fsdecode(b"gbk\xd6\xd0")
    obstructed(named / "op_api" / "lib" / "libcust_opapi.so", "text")
    done = run(contract, ASCEND_CUSTOM_OPP_PATH=f"{named}:{packages}/two")
    assert done.stdout.strip() == "[6.0, 12.0]", done.stderr
    assert f"the operators of {tmp_path}/gbk\ufffd\ufffd/op_api/lib/libcust_opapi.so are left out: " in done.stderr


def test_named_packages_come_before_vendors(contract, packages):
    opp = priority(packages, "five")
    assert scaled(contract, ASCEND_OPP_PATH=opp, ASCEND_CUSTOM_OPP_PATH=str(packages / "two")) == "[6.0, 12.0]"


def test_a_program_may_name_a_package_after_the_import(contract, packages):
    code = f"import os, torch\nos.environ['ASCEND_CUSTOM_OPP_PATH'] = {str(packages / 'five')!r}\n{CODE}"
    done = run(contract, code)
    assert done.stdout.strip() == "[15.0, 30.0]", done.stderr


def test_without_a_package_the_error_says_where_was_looked(contract, packages):
    done = run(contract, ASCEND_CUSTOM_OPP_PATH=str(packages / "nothing"))
    assert "NotImplementedError: npu: aclnnScaleCust was not found in libopapi.so in /" in done.stderr
    assert f"and in the packages {packages}/nothing/op_api/lib/libcust_opapi.so (not there)" in done.stderr


def test_a_library_that_cannot_be_loaded_is_left_out_with_its_reason(contract, packages, tmp_path):
    broken = tmp_path / "op_api" / "lib" / "libcust_opapi.so"
    broken.parent.mkdir(parents=True)
    broken.write_text("no library")
    done = run(contract, ASCEND_CUSTOM_OPP_PATH=f"{tmp_path}:{packages}/two")
    assert done.stdout.strip() == "[6.0, 12.0]"
    assert f"the operators of {broken} are left out: " in done.stderr and "file too short" in done.stderr


def obstructed(place: Path, how: str) -> str:
    """Makes it a file that is no library, and returns what is said of it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if how == "text":
        place.write_text("no library")
        return "file too short"
    if how == "folder":
        place.mkdir()
        return "it is a folder, not a library"
    if how == "pipe":
        os.mkfifo(place)
        return "it is no file that can be loaded"
    if how == "cut":
        place.write_bytes((library_folder() / "libascendcl.so").read_bytes()[:5000])
        return "it is cut off: it has 5000 bytes, and a part of it ends at "
    place.symlink_to("nowhere.so")
    return "it is a link to nowhere.so: No such file or directory"


OBSTRUCTED = ("text", "folder", "pipe", "link", "cut")


def warnings_of(done: subprocess.CompletedProcess, place: Path) -> list[str]:
    return [line for line in done.stderr.splitlines() if f"the operators of {place} are left out: " in line]


@pytest.mark.parametrize("how", OBSTRUCTED)
@pytest.mark.parametrize("order", ["named", "vendor"])
def test_a_package_that_is_no_library_is_left_out_with_one_warning(contract, packages, tmp_path, order, how):
    place = tmp_path / "vendors" / "bad" / "op_api" / "lib" / "libcust_opapi.so"
    said = obstructed(place, how)
    (tmp_path / "vendors" / "two").symlink_to(packages / "two")
    (tmp_path / "vendors" / "config.ini").write_text("load_priority=bad,two\n")
    named = {"ASCEND_CUSTOM_OPP_PATH": f"{tmp_path}/vendors/bad:{packages}/two"}
    done = run(contract, CODE * 2, **(named if order == "named" else {"ASCEND_OPP_PATH": str(tmp_path)}))
    assert done.stdout.split("\n")[:2] == ["[6.0, 12.0]"] * 2, done.stderr
    assert len(warned := warnings_of(done, place)) == 1 and said in warned[0]


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory) -> Path:
    """A root of libraries of its own, which are the software NPU's."""
    lib = tmp_path_factory.mktemp("toolkit") / "lib64"
    lib.mkdir()
    for library in library_folder().glob("*.so*"):
        (lib / library.name).symlink_to(library)
    return lib.parent


BESIDE = [("libcust_opapi.so", "folder"), ("libaclnn_math.so", "text"), *(("libopapi_added.so", h) for h in OBSTRUCTED)]


@pytest.mark.parametrize("name, how", BESIDE)
def test_a_library_beside_libopapi_is_left_out_with_one_warning(contract, packages, toolkit, name, how):
    place = toolkit / "lib64" / name
    said = obstructed(place, how)
    try:
        done = run(contract, CODE * 2, ANYCEND_CANN=str(toolkit), ASCEND_CUSTOM_OPP_PATH=str(packages / "two"))
    finally:
        place.rmdir() if how == "folder" else place.unlink()
    assert done.stdout.split("\n")[:2] == ["[6.0, 12.0]"] * 2, done.stderr
    assert len(warned := warnings_of(done, place)) == 1 and said in warned[0]


def test_a_library_beside_libopapi_is_found_and_follows_the_packages(contract, packages, toolkit):
    place = toolkit / "lib64" / "libopapi_added.so"
    place.symlink_to(packages / "two" / "op_api" / "lib" / "libcust_opapi.so")
    five = {"ASCEND_CUSTOM_OPP_PATH": str(packages / "five")}
    try:
        assert scaled(contract, ANYCEND_CANN=str(toolkit)) == "[6.0, 12.0]"
        assert scaled(contract, ANYCEND_CANN=str(toolkit), **five) == "[15.0, 30.0]"
    finally:
        place.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_library_of_another_user_is_left_out(contract, packages, tmp_path):
    library = build.package(tmp_path / "foreign", 7.0)
    os.chown(library, 12345, -1)
    done = run(contract, ASCEND_CUSTOM_OPP_PATH=f"{tmp_path}/foreign:{packages}/two")
    assert done.stdout.strip() == "[6.0, 12.0]"
    assert "it belongs to neither root nor this user" in done.stderr


def test_operators_of_torch_npu_come_from_a_package_too(contract, tmp_path):
    """As on CANN: a package's aclnnFoo is taken before libopapi's."""
    build.abs_that_negates(tmp_path)
    code = "import torch; print(torch.abs(torch.tensor([1.0, -2.0], device='npu')).tolist())"
    done = run(contract, code, ASCEND_CUSTOM_OPP_PATH=str(tmp_path))
    assert done.stdout.strip() == "[-1.0, 2.0]", done.stderr
