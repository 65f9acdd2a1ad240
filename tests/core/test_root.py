"""Which CANN a process uses: csrc/cann/root.cpp."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch

from tests.core import tools
from tests.core.tools import LIBRARY

# What it is about happens at import.
run, output = functools.partial(tools.run, imports=True), functools.partial(tools.output, imports=True)

WHICH = """
import warnings
warnings.simplefilter("always")
import torch, torch_npu
torch.UntypedStorage(8, device="npu")
print(*torch_npu._C._cann_root())
"""
FAILS = """
import torch
try:
    torch.UntypedStorage(8, device="npu")
except RuntimeError as error:
    print(error)
print((torch.ones(2) + 1).tolist())
"""
LIBRARIES = ("libascendcl.so", "libnnopbase.so", "libopapi.so", "libhccl.so")


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """A complete toolkit: the software NPU's libraries stand for the vendor's."""
    lib = tmp_path / "toolkit" / "lib64"
    lib.mkdir(parents=True)
    for name in LIBRARIES:
        if (LIBRARY.parent / name).exists():
            (lib / name).symlink_to(LIBRARY.parent / name)
        else:
            (lib / name).touch()
    return lib.parent


def test_nothing_set_means_the_software_npu():
    assert output(WHICH).endswith("True")


def test_the_import_names_the_root_in_use_and_a_child_takes_it_without_a_notice():
    child = f"import os, subprocess, sys, torch; subprocess.run([sys.executable, '-c', {WHICH!r}], check=True)"
    done = run(child + "; print(os.environ['ASCEND_HOME_PATH'])")
    chosen, named = done.stdout.strip().splitlines()[-2:]
    assert chosen.endswith("True") and done.stderr == ""
    assert Path(named, "lib64", "libascendcl.so").is_file()


@pytest.mark.parametrize("variable", ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"])
def test_the_import_leaves_a_toolkit_that_is_named(variable):
    text = output("import os, torch; print(os.environ.get('ASCEND_HOME_PATH'))", **{variable: "/nonexistent"})
    assert text == ("/nonexistent" if variable == "ASCEND_HOME_PATH" else "None")


def test_soft_is_taken_at_its_word_even_beside_a_toolkit(toolkit):
    assert output(WHICH, ANYCEND_CANN="soft", ASCEND_HOME_PATH="/nonexistent").endswith("True")


def test_a_root_is_used_where_it_is_named(toolkit):
    assert output(WHICH, ANYCEND_CANN=str(toolkit)) == f"{toolkit} False"


@pytest.mark.skipif(any(Path("/dev").glob("davinci[0-9]*")), reason="this machine has an NPU")
def test_a_complete_toolkit_without_a_device_gives_one_notice_and_the_software_npu(toolkit):
    done = run(WHICH, ASCEND_HOME_PATH=str(toolkit))
    assert done.stdout.strip().endswith("True")
    assert done.stderr.count("this machine has no NPU") == 1


@pytest.mark.parametrize("variable", ["ASCEND_HOME_PATH", "ANYCEND_CANN"])
def test_a_missing_root_is_one_error_and_the_process_goes_on(variable):
    text = output(FAILS, **{variable: "/nonexistent/cann"})
    assert f"{variable}=/nonexistent/cann is not a directory" in text
    assert "ANYCEND_CANN=soft" in text
    assert text.endswith("[2.0, 2.0]")


@pytest.mark.parametrize("missing", LIBRARIES)
def test_a_half_installed_root_names_the_file(toolkit, missing):
    (toolkit / "lib64" / missing).unlink()
    text = output(FAILS, ASCEND_HOME_PATH=str(toolkit))
    assert f"{toolkit}/lib64/{missing} is missing" in text
    assert "ANYCEND_CANN=soft" in text


def test_a_broken_library_is_named_with_the_linkers_reason(toolkit):
    library = toolkit / "lib64" / "libascendcl.so"
    library.unlink()
    library.write_text("not a library")
    text = output(FAILS, ANYCEND_CANN=str(toolkit))
    assert f"cannot load {library}" in text
    assert "ANYCEND_CANN=soft" in text


def test_a_library_without_a_required_function_is_named(toolkit):
    library = toolkit / "lib64" / "libascendcl.so"
    library.unlink()
    library.symlink_to(Path(torch.__file__).parent / "lib" / "libc10.so")  # some library that loads
    text = output(FAILS, ANYCEND_CANN=str(toolkit))
    assert f"{library} has no acl" in text
    assert "older than torch_npu supports" in text


def test_a_corrected_variable_is_seen_by_the_next_call():
    text = output(
        """
        import os, torch
        os.environ["ASCEND_HOME_PATH"] = "/nonexistent"
        print(torch.npu.is_available())
        del os.environ["ASCEND_HOME_PATH"]
        print(torch.npu.is_available(), torch.UntypedStorage(8, device="npu").device)
        """
    )
    assert text.split() == ["False", "True", "npu:0"]


def test_asking_for_availability_warns_once_why_there_is_none():
    done = run("import torch; print([torch.npu.is_available() for _ in range(3)])", ASCEND_HOME_PATH="/nonexistent")
    assert done.stdout.strip() == "[False, False, False]"
    assert done.stderr.count("is not a directory") == 1
