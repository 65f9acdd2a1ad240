"""accelerate's own scripts, which its package holds and `accelerate test` runs the first of: each checks itself.

test_script compares training on the ranks with training on one CPU, in each precision; test_sync gradients that are
accumulated; test_ops collectives; the others what their names say. An operator that fell back would be an error.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.clients import environment

FAMILY = "transformers4"
SCRIPTS = [
    ("test_script", 1), ("test_script", 2), ("test_sync", 1), ("test_sync", 2), ("test_ops", 2),
    ("test_ddp_comm_hook", 2), ("test_distributed_data_loop", 2), ("test_merge_weights", 2), ("test_notebook", 2),
]  # fmt: skip
TELL = {"test_script", "test_ops"}  # print where they run
STARTS = {"test_notebook"}  # its ranks itself
# What ends a script after the cases before it: PyTorch's DistributedDataParallel takes this hook on CUDA and XPU alone.
REFUSED = {"test_ddp_comm_hook": "BF16 all reduce communication hook required CUDA 11+"}


@pytest.mark.full
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("script", "ranks"), SCRIPTS)
def test_a_script_of_accelerate_passes(script, ranks, tmp_path):
    try:
        python = environment.python(FAMILY)
    except environment.Unavailable as reason:
        pytest.skip(str(reason))
    keep = {name: value for name, value in os.environ.items() if not name.startswith("ASCEND_")}
    own = {"PYTHONPATH": ":".join(filter(None, (keep.get("PYTHONPATH", ""), str(environment.ROOT)))),
           "TORCH_NPU_FALLBACK_CPU_DISABLE": "1", "ACCELERATE_NUM_PROCESSES": str(ranks), "OMP_NUM_THREADS": "1",
           "HF_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}  # fmt: skip
    launch = [python.with_name("accelerate"), "launch", "--num_processes", str(ranks), "--num_machines", "1",
              "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]  # fmt: skip
    start = [python] if script in STARTS else launch
    said = tmp_path / "said.txt"
    with said.open("w") as output:
        done = subprocess.run(
            [*start, "-m", f"accelerate.test_utils.scripts.{script}"], cwd=tmp_path, env=keep | own,
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=1400,
        )  # fmt: skip
    text = said.read_text(errors="replace")
    if script in REFUSED:
        assert REFUSED[script] in text and "Test DDP comm hook: fp16" in text, text[-6000:]
    else:
        assert done.returncode == 0, text[-6000:]
    assert script not in TELL or "Device: npu" in text, text[:2000]
