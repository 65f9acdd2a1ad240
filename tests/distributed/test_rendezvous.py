"""torch_npu.distributed.rendezvous, elastic and run: jobs over the parallel store, started as users start them."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from tests import forked
from tests.distributed.launch import ROOT, environment, run, torch_npu_run, torchrun
from tests.ports import free_port

SCRIPT = ROOT / "tests" / "distributed" / "scripts" / "sum.py"
# A launcher and its ranks import torch: 3 s of a processor each. Of two choices each has a test in every run,
# and their other pairs have one in the full run.
FULL = pytest.mark.full


def expected(n: int, store: str = "ParallelStore") -> list[str]:
    return sorted(f"rank {r} of {n}: {store} {[n * (n + 1) / 2] * 3}" for r in range(n))


def said(output: str) -> list[str]:
    return sorted(line for line in output.splitlines() if line.startswith("rank "))


def ranks_by_hand(n: int, *args: str, **env: str) -> str:
    """As a shell loop starts them; a process of Python each is tests/distributed/test_examples.py's."""
    jobs = [
        forked.Python([SCRIPT, *args], env=environment(RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(n), **env))
        for r in range(n)
    ]
    outputs = [job.communicate(timeout=600)[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0] * n, outputs
    return "".join(outputs)


def test_init_method_parallel():
    assert said(ranks_by_hand(4, f"parallel://127.0.0.1:{free_port()}")) == expected(4)


JOIN = """
import datetime, time
import torch.distributed as dist
began = time.monotonic()
try:
    dist.init_process_group("hccl", init_method="env://", timeout=datetime.timedelta(seconds=3))
except Exception as error:
    print(f"{time.monotonic() - began:.1f}|{type(error).__name__}|{error}")
"""


# Each store in its own words. TCPStore tries a second time before it gives up.
@pytest.mark.parametrize(
    ("switch", "words", "most"),
    [
        ("0", "timed out after 3000ms while trying to connect to (nobody.invalid, {port})", 2 * 3 + 30),
        ("1", "no connection to the store at nobody.invalid:{port}: the name does not resolve", 3 + 30),
    ],
)
def test_a_master_that_does_not_resolve_is_one_error_on_every_rank(switch, words, most):
    port = free_port()
    ranks = [
        forked.Python(
            ["-c", JOIN],
            env=environment(
                RANK=str(r),
                WORLD_SIZE="2",
                MASTER_ADDR="nobody.invalid",
                MASTER_PORT=str(port),
                TORCH_NPU_USE_PARALLEL_TCPSTORE=switch,
            ),
            apart=True,
        )
        for r in range(2)
    ]
    for rank in ranks:
        (line,) = rank.communicate(timeout=600)[0].splitlines()
        seconds, kind, message = line.split("|")
        assert kind == "DistNetworkError" and words.format(port=port) in message, line
        assert float(seconds) < most, line


def test_the_switch_changes_env():
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    assert said(ranks_by_hand(2, TORCH_NPU_USE_PARALLEL_TCPSTORE="1", **address)) == expected(2)
    address["MASTER_PORT"] = str(free_port())
    assert said(ranks_by_hand(2, **address)) == expected(2, "TCPStore")


def test_a_switch_that_is_no_switch_is_refused():
    done = subprocess.run(
        [sys.executable, "-c", "import torch_npu"],
        env=environment(TORCH_NPU_USE_PARALLEL_TCPSTORE="maybe"),
        capture_output=True,
        text=True,
    )
    assert "TORCH_NPU_USE_PARALLEL_TCPSTORE=maybe is none of 0, 1, false and true" in done.stderr


@pytest.mark.parametrize("tiered", ["false", pytest.param("true", marks=FULL)])
def test_torch_npu_run(tiered):
    output = run(
        torch_npu_run(
            "--nproc-per-node=4",
            "--master-addr=127.0.0.1",
            f"--master-port={free_port()}",
            f"--enable_tiered_parallel_tcpstore={tiered}",
            SCRIPT,
        )
    )
    assert said(output) == expected(4)


@pytest.mark.parametrize("tiered", [pytest.param("false", marks=FULL), "true"])
def test_torch_npu_run_on_two_nodes(tiered):
    port = free_port()
    jobs = [
        subprocess.Popen(
            [
                str(part)
                for part in torch_npu_run(
                    "--nnodes=2",
                    f"--node-rank={node}",
                    "--nproc-per-node=2",
                    "--master-addr=127.0.0.1",
                    f"--master-port={port}",
                    f"--enable-tiered-parallel-tcpstore={tiered}",
                    SCRIPT,
                )
            ],
            env=environment(ASCEND_RT_VISIBLE_DEVICES="0,1" if node == 0 else "2,3"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in range(2)
    ]
    outputs = [job.communicate(timeout=600)[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], outputs
    assert said("".join(outputs)) == expected(4)


def test_standalone():
    assert said(run(torch_npu_run("--standalone", "--nproc-per-node=2", SCRIPT))) == expected(2)


def test_torch_npu_run_needs_no_port_on_one_node():
    assert said(run(torch_npu_run("--nproc-per-node=2", SCRIPT))) == expected(2)


def test_torch_npu_run_takes_torchruns_port_for_several_nodes(monkeypatch):
    from torch_npu.distributed.run import parse_args

    monkeypatch.setenv("ENABLE_TIERED_PARALLEL_TCPSTORE", "false")  # parse_args sets it
    several = parse_args(["--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1", "train.py"])
    assert (several.rdzv_endpoint, several.rdzv_conf) == ("10.0.0.1:29500", "rank=1")
    assert parse_args(["--nnodes=1:2", "train.py"]).rdzv_endpoint == "127.0.0.1:29500"
    assert parse_args(["--master-port=3000", "train.py"]).rdzv_endpoint == "127.0.0.1:3000"
    assert parse_args(["--rdzv-endpoint=a:1", "train.py"]).rdzv_endpoint == "a:1"
    assert parse_args(["train.py"]).rdzv_endpoint == "localhost:0"


NOTICE = "rank 0 opens a store there"


# The documents' scripts set MASTER_PORT themselves; under a launcher nobody had a store at that port.
@pytest.mark.parametrize(
    "launcher, store, scheme",
    [
        (torchrun, "TCPStore", "env"),
        (torch_npu_run, "ParallelStore", "tcp"),
        pytest.param(torchrun, "TCPStore", "tcp", marks=FULL),
        pytest.param(torch_npu_run, "ParallelStore", "env", marks=FULL),
    ],
)
def test_a_script_that_names_a_port_of_its_own_under_a_launcher(launcher, store, scheme):
    port = free_port()
    way = f"tcp://127.0.0.1:{port}" if scheme == "tcp" else f"port={port}"
    output = run(launcher("--nproc-per-node=2", SCRIPT, way))
    assert said(output) == expected(2, store)
    assert output.count(NOTICE) == 1 and f"at port {port}" in output


def test_the_launchers_port_is_the_launchers_store():
    output = run(torchrun("--nproc-per-node=2", SCRIPT))
    assert said(output) == expected(2, "TCPStore") and NOTICE not in output


def test_a_store_that_somebody_has_at_that_port_is_used():
    from torch.distributed import TCPStore

    theirs = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    output = run(torchrun("--nproc-per-node=2", SCRIPT, f"port={theirs.port}"))
    assert said(output) == expected(2, "TCPStore")
    assert theirs.num_keys() > 1


@pytest.mark.parametrize("how", ["static", pytest.param("standalone", marks=FULL)])
def test_restarted_workers_start_clean(how):
    where = {"static": ["--master-addr=127.0.0.1", f"--master-port={free_port()}"], "standalone": ["--standalone"]}[how]
    output = run(torch_npu_run(*where, "--nproc-per-node=2", "--max-restarts=1", SCRIPT, "fail"))
    assert said(output) == expected(2)


def test_torchrun_with_the_parallel_back_end():
    if "parallel" not in entry_points(group="torchrun.handlers").names:
        pytest.skip("torchrun finds back ends in the metadata of installed packages: run `make build`")
    port = free_port()
    assert said(
        run(torchrun("--rdzv-backend=parallel", f"--rdzv-endpoint=127.0.0.1:{port}", "--nproc-per-node=2", SCRIPT))
    ) == expected(2)


def test_a_url_without_a_port_is_refused():
    import torch.distributed as dist

    with pytest.raises(ValueError, match="parallel://localhost.* must name a host and a port"):
        dist.init_process_group("hccl", init_method="parallel://localhost", rank=0, world_size=1)


COUNTS_DEVICES = """
import datetime, os
import torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("hccl", rank=rank, world_size=3, timeout=datetime.timedelta(seconds=3))
"""


@pytest.mark.parametrize("launcher", [torchrun, pytest.param(torch_npu_run, marks=FULL)])
def test_a_script_that_asks_for_more_ranks_than_were_started_is_told(tmp_path, launcher):
    """The documents' script takes world_size from the number of devices: with fewer ranks it waited in silence."""
    (tmp_path / "train.py").write_text(COUNTS_DEVICES, encoding="utf-8")
    command = launcher("--standalone", "--nproc-per-node=2", tmp_path / "train.py")
    done = subprocess.run(list(map(str, command)), env=environment(), capture_output=True, text=True, timeout=600)
    words = "asks for a group of 3 ranks, but its launcher started 2: the group waits for 1 more. Start 3"
    assert done.stderr.count(words) == 1, done.stderr
    assert "ASCEND_RT_VISIBLE_DEVICES=0,1 shows" in done.stderr


@pytest.mark.parametrize("way", ["static", "dynamic"])
def test_a_launcher_that_waits_for_other_nodes_says_so(way):
    """--nnodes=8, as the document prints it for one host, waited ten minutes in silence."""
    port = free_port()
    launcher, endpoint = (
        (torch_npu_run, ["--master-addr=127.0.0.1", f"--master-port={port}"])
        if way == "static"
        else (torchrun, ["--rdzv-backend=parallel", f"--rdzv-endpoint=127.0.0.1:{port}"])
    )
    command = launcher("--nnodes=8", "--nproc-per-node=1", *endpoint, SCRIPT)
    waiting = subprocess.Popen(list(map(str, command)), env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        (line,) = [next(line for line in waiting.stderr if "waits at" in line)]
    finally:
        waiting.kill()
        waiting.wait()
    assert f"waits at 127.0.0.1:{port} for other nodes: --nnodes=8 means as many hosts" in line
    assert "For one host: --nnodes=1" in line
