"""The CANN root around the software NPU's libraries, and the command `anycend`: softnpu/root, softnpu/command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_npu
from tests.seeds import document

ROOT = Path(torch_npu.__path__[0]) / "softnpu"


def anycend(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "anycend", *arguments],
        env={**os.environ, **environment}, capture_output=True, text=True, cwd="/", timeout=600,
    )  # fmt: skip


def bash(script: str, *arguments: str, **environment: str) -> dict[str, str]:
    """The environment after the script."""
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    script += "\nexec env -0"
    done = subprocess.run(
        ["bash", "-c", script, "bash", *arguments], env=keep | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)


def test_root_is_named_without_importing_torch():
    code = "import sys; from anycend.__main__ import main; main(['root']); assert 'torch' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, capture_output=True, text=True, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).samefile(ROOT)


@pytest.mark.parametrize("library", [
    "ascendcl", "opapi", "nnopbase", "hccl", "acl_op_compiler", "ge_runner", "graph", "fmk_parser", "ascend_protobuf",
    "acl_tdt_channel", "runtime", "ascend_hal", "msprofiler", "c_sec", "profapi", "mspti", "ms_tools_ext", "dcmi",
])  # fmt: skip
def test_lib64_has_every_library_a_client_loads(library):
    assert (ROOT / "lib64" / f"lib{library}.so").is_file()


@pytest.mark.parametrize(
    "folder", ["opp", "runtime", "compiler", "include", "tools/ms_fmk_transplt", "ascend-toolkit/latest"]
)
def test_folders_that_clients_look_for_exist(folder):
    assert (ROOT / folder).is_dir()


def test_versions_are_those_of_the_library():
    text = (ROOT / "ascend_toolkit_install.info").read_text()
    version = re.search(r"^version=(.*)$", text, re.M)[1]
    assert tuple(map(int, version.split("."))) >= (9, 0, 0)
    for package in ("runtime", "bisheng-compiler", "hccl", "oam-tools", "ops-legacy"):
        assert (ROOT / "share/info" / package / "version.info").read_text() == f"Version={version}\n"
    assert torch.npu.is_available()
    from tests.runtime.acl import Acl  # the library's own answer

    acl = Acl()
    import ctypes

    answer = ctypes.create_string_buffer(128)
    assert acl.raw.aclsysGetVersionStr(b"runtime", answer) == 0
    assert answer.value.decode() == version


def test_set_env_names_the_root_and_adds_once():
    once = bash(f'. "{ROOT}/set_env.sh"', LD_LIBRARY_PATH="/mine")
    twice = bash(f'. "{ROOT}/set_env.sh"; . "{ROOT}/set_env.sh"', LD_LIBRARY_PATH="/mine")
    home = Path(once["ASCEND_HOME_PATH"])
    assert home.samefile(ROOT)
    assert once["LD_LIBRARY_PATH"] == f"{home}/lib64:/mine"
    assert Path(once["ASCEND_OPP_PATH"]).is_dir()
    assert {k: v for k, v in twice.items() if k != "_"} == {k: v for k, v in once.items() if k != "_"}
    assert not [name for name in once if "anycend" in name.lower()]


@pytest.mark.parametrize("place", ["ascend-toolkit", "nnae", "ascend-toolkit/latest"])
def test_set_env_of_an_ascend_tree_is_the_same(place):
    assert Path(bash(f'. "{ROOT}/{place}/set_env.sh"')["ASCEND_HOME_PATH"]).samefile(ROOT)


def test_the_documents_environment_script_takes_the_root(seeds):
    """The script of the second document, with our root as its argument; without a toolkit folder it takes nnae."""
    text = document.read(seeds, "002")
    (script,) = [block for block in document.blocks(text, "shell") if "ascend_cann_install.info" in block]
    found = bash(script, str(ROOT))
    assert Path(found["ASCEND_HOME_PATH"]).samefile(ROOT)
    assert found["LD_LIBRARY_PATH"].startswith(f"{found['ASCEND_HOME_PATH']}/lib64:")
    assert found["LD_LIBRARY_PATH"].endswith(":/usr/lib/aarch64_64-linux-gnu")
    assert found["ASCEND_GLOBAL_LOG_LEVEL"] == "3"
    assert found["HCCL_WHITELIST_DISABLE"] == "1"


def test_the_documents_environment_script_falls_back_to_nnae(seeds, tmp_path):
    text = document.read(seeds, "002")
    (script,) = [block for block in document.blocks(text, "shell") if "ascend_cann_install.info" in block]
    (tmp_path / "nnae").symlink_to(ROOT / "nnae")
    assert Path(bash(script, str(tmp_path))["ASCEND_HOME_PATH"]).samefile(ROOT)


def test_run_gives_the_environment_and_the_commands_status():
    done = anycend("run", "--", "sh", "-c", "echo $ASCEND_HOME_PATH; exit 7")
    assert done.returncode == 7
    assert Path(done.stdout.strip()).samefile(ROOT)
    assert "no command" in anycend("run").stderr


def test_run_does_not_name_the_root_for_a_command_that_cannot_be_started():
    done = anycend("run", "--", "no-such-command", "argument")
    assert done.returncode == 127 and "no-such-command: not found" in done.stderr
    assert done.stderr.startswith("anycend run: ") and str(ROOT) not in done.stderr


def vendor_site(folder: Path) -> Path:
    """What attach asks of a site-packages."""
    (folder / "torch_npu").mkdir(parents=True)
    (folder / "torch_npu-2.13.0.dist-info").mkdir()
    return folder


def test_attach_links_and_detach_removes_only_its_links(tmp_path):
    site = vendor_site(tmp_path / "site")
    assert anycend("attach", "--site-packages", str(site)).returncode == 0
    links = site / "torch_npu.libs"
    assert (links / "libascendcl.so").resolve() == (ROOT / "lib64" / "libascendcl.so").resolve()
    record = json.loads((links / "anycend-attached.json").read_text())
    assert sorted(record["links"]) == sorted(p.name for p in links.iterdir() if p.is_symlink())
    assert anycend("attach", "--site-packages", str(site)).returncode == 0  # again: the same
    (links / "theirs.so").touch()
    assert anycend("detach", "--site-packages", str(site)).returncode == 0
    assert [p.name for p in links.iterdir()] == ["theirs.so"]
    again = anycend("detach", "--site-packages", str(site))
    assert again.returncode == 1 and "nothing is attached" in again.stderr


def test_attach_overwrites_nothing(tmp_path):
    site = vendor_site(tmp_path / "site")
    (site / "torch_npu.libs").mkdir()
    theirs = site / "torch_npu.libs" / "libhccl.so"
    theirs.write_text("theirs")
    done = anycend("attach", "--site-packages", str(site))
    assert done.returncode == 1 and "libhccl.so" in done.stderr
    assert [p.name for p in theirs.parent.iterdir()] == ["libhccl.so"] and theirs.read_text() == "theirs"


def test_attach_names_what_is_missing(tmp_path):
    done = anycend("attach", "--site-packages", str(tmp_path))
    assert done.returncode == 1 and "pip install --no-deps torch-npu" in done.stderr
    site = vendor_site(tmp_path / "site")
    (site / "anycend-2.13.0.dist-info").mkdir()
    done = anycend("attach", "--site-packages", str(site))
    assert done.returncode == 1 and "pip uninstall anycend torch-npu" in done.stderr


def test_our_plugin_refuses_to_share_a_folder_with_the_vendors(tmp_path):
    for entry in Path(torch_npu.__path__[0]).parent.glob("torch_npu"):
        (tmp_path / entry.name).symlink_to(entry)
    (tmp_path / "torch_npu-2.13.0.dist-info").mkdir()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import torch_npu"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, capture_output=True, text=True, cwd="/",
    )  # fmt: skip
    assert done.returncode != 0 and "pip uninstall anycend torch-npu" in done.stderr


@pytest.mark.parametrize("compiler,language", [("gcc", "c"), ("g++", "c++")])
def test_a_client_compiles_against_the_root(compiler, language, tmp_path):
    program = tmp_path / "client.c"
    program.write_text(
        '#include <stdio.h>\n#include "acl/acl.h"\n#include "aclnn/acl_meta.h"\n'
        '#include "aclnn/api.h"\n#include "hccl/hccl.h"\n'
        "int main(void) {\n  uint32_t count = 0;\n  if (aclInit(NULL) || aclrtGetDeviceCount(&count)) return 1;\n"
        '  printf("%u\\n", count);\n  return aclFinalize();\n}\n'
    )
    built = tmp_path / "client"
    subprocess.run(
        [compiler, "-x", language, "-Wall", "-Werror", str(program), "-o", str(built), f"-I{ROOT}/include",
         f"-L{ROOT}/lib64", "-lascendcl"], check=True,
    )  # fmt: skip
    done = anycend("run", "--", str(built), ANYCEND_DEVICES="3")
    assert done.stdout == "3\n", done.stderr


def test_both_distributions_have_one_version(root):
    versions = [
        re.search(r'^version = "(.*)"$', (root / path).read_text(), re.M)[1]
        for path in ("pyproject.toml", "softnpu/pyproject.toml")
    ]
    assert versions[0] == versions[1]
