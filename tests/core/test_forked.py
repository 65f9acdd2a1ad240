"""tests/forked.py: what forks is what `python` would run, as a program can see it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests import forked

TELLS = """
import __main__, os, sys, beside, torch
print([sys.argv, sys.path[0], os.getcwd(), __name__, __main__.__dict__ is globals(), hasattr(torch, "npu"),
       globals().get("__file__")])
print("apart", file=sys.stderr)
"""
SPAWNS = """
import multiprocessing, os
def work(queue):
    queue.put([os.getcwd(), __name__])
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "beside.py").touch()
    (tmp_path / "tells.py").write_text(TELLS)
    return tmp_path


@pytest.mark.full  # starts an interpreter
def test_a_file_is_told_what_python_tells_it(folder):
    command = ["tells.py", "a", "-b"]
    ours = forked.run(command, cwd=folder)
    theirs = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True)
    assert ours.returncode == 0, ours.stderr
    assert (ours.stdout, ours.stderr) == (theirs.stdout, theirs.stderr)


def test_a_module_and_a_text_are_told_the_same(folder):
    said = forked.run(["-m", "tells", "a"], cwd=folder).stdout
    assert said.startswith(f"[[{str(folder / 'tells.py')!r}, 'a'], {str(folder)!r}, {str(folder)!r}, '__main__', True")
    assert forked.run(["-c", TELLS, "a"], cwd=folder).stdout.startswith("[['-c', 'a'], '', ")


def test_a_files_name_is_whole_to_the_program(folder):
    assert forked.run(["tells.py"], cwd=folder).stdout.endswith(f", {str(folder / 'tells.py')!r}]\n")


@pytest.mark.full  # with a nursery of its own
def test_what_torch_reads_at_import_was_read():
    program = "import os, torch; print(torch.get_num_threads(), os.environ['HCCL_IF_IP'])"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HCCL_IF_IP": "127.0.0.1"}
    assert forked.run(["-c", program], env=env).stdout == "1 127.0.0.1\n"


def test_the_plugin_is_imported_with_the_variables_of_the_program():
    program = ["-c", "import sys, torch; print('torch_npu' in sys.modules)"]
    for value in ("0", "1"):
        found = forked.run(program, env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": value})
        assert found.stdout == ("True\n" if value == "1" else "False\n"), found.stderr
    refused = forked.run(["-c", "import torch_npu"], env={**os.environ, "TORCH_TRANSFER_TO_NPU": "yes"})
    assert refused.returncode == 1 and "TORCH_TRANSFER_TO_NPU=yes is neither 0 nor 1" in refused.stderr


def test_a_process_that_it_spawns_has_its_folder_and_its_program(tmp_path):
    (tmp_path / "spawns.py").write_text(SPAWNS)
    done = forked.run(["spawns.py"], cwd=tmp_path)
    assert done.stdout == f"[{str(tmp_path)!r}, '__mp_main__']\n", done.stderr


def test_warnings_are_ignored_and_errors_on_request():
    program = ["-c", "import warnings; warnings.warn('one')"]
    assert "UserWarning: one" in forked.run(program).stderr
    assert forked.run(["-W", "ignore", *program]).stderr == ""
    refused = forked.run(["-W", "error", *program])
    assert refused.returncode == 1 and refused.stderr.endswith("UserWarning: one\n")


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("import os; os.abort()", -signal.SIGABRT, ""),
    ],
    ids=["exit", "exception", "abort"],
)
def test_an_end_is_the_programs_own(program, code, said):
    done = forked.run(["-c", program])
    assert done.returncode == code and said in done.stderr and "forked_program" not in done.stderr


def test_a_limit_of_time_ends_it():
    with pytest.raises(subprocess.TimeoutExpired) as late:
        forked.run(["-c", "import time; print('begun', flush=True); time.sleep(600)"], timeout=3)
    assert late.value.output in ("begun\n", "")
