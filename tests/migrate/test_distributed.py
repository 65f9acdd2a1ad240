"""migrate/src/rewrite_distributed.cpp and run_distributed_npu.sh: one card to several."""

from __future__ import annotations

import ast
import json
import os
import subprocess

import pytest

TRAIN = '''"""Doc."""
import torch
from torch.utils.data import DataLoader
from data import train_set, val_set


def save_checkpoint(state, path):
    torch.save(state, path)


def main(args):
    device = torch.device('cuda:{}'.format(args.gpu))
    model = Net()
    if args.gpu is not None:
        model = model.cuda(args.gpu)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_loader = DataLoader(train_set, batch_size=8, shuffle=True, num_workers=2)
    val_loader = DataLoader(val_set, batch_size=8, shuffle=True)
    for epoch in range(args.epochs):
        for x, y in train_loader:
            model(x.to(device)).sum().backward()
        print(model.scale, model.training)
        torch.save(model.state_dict(), 'b.pt')
        if x: torch.save(1, 'c.pt')


if __name__ == '__main__':
    main(parse())
'''
EXPECTED = '''"""Doc."""
import torch_npu
import torch
from torch.utils.data import DataLoader
from data import train_set, val_set


def save_checkpoint(state, path):
    if not (torch.distributed.get_rank() == 0): return
    torch.save(state, path)


def main(args):
    device = torch.device('npu')
    model = Net()
    if args.gpu is not None:
        model = model.npu()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank], output_device=local_rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_sampler = torch.utils.data.distributed.DistributedSampler(train_set)
    train_loader = DataLoader(train_set, batch_size=8, num_workers=2, sampler=train_sampler)
    val_loader = DataLoader(val_set, batch_size=8, shuffle=True)
    for epoch in range(args.epochs):
        train_loader.sampler.set_epoch(epoch)
        for x, y in train_loader:
            model(x.to(device)).sum().backward()
        print(model.module.scale, model.training)
        if torch.distributed.get_rank() == 0: torch.save(model.module.state_dict(), 'b.pt')
        if x: torch.distributed.get_rank() == 0 and torch.save(1, 'c.pt')


if __name__ == '__main__':
    import os
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    torch_npu.npu.set_device(local_rank)
    torch.distributed.init_process_group("hccl")
    main(parse())
    torch.distributed.destroy_process_group()
'''


@pytest.fixture
def distribute(run, tmp_path):
    def call(text: str, *more: str, name: str = "train.py", others: dict[str, str] | None = None) -> str:
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text(text)
        for other, content in (others or {}).items():
            (tmp_path / "in" / other).write_text(content)
        run("-i", "in", "-o", "out", "--yes", "distributed", "-m", f"in/{name}", *more)
        result = (tmp_path / "out" / "in_msft_multi" / name).read_text()
        ast.parse(result)
        return result

    return call


def test_a_script_in_the_documents_manner(distribute):
    assert distribute(TRAIN) == EXPECTED


def test_without_a_main_guard(distribute):
    text = distribute("import torch\n\ndef f(): pass\n\nmodel = Net().cuda()\nfor epoch in range(3):\n    f()\n")
    assert text == (
        "import torch_npu\nimport torch\n\ndef f(): pass\n\n"
        'import os\nlocal_rank = int(os.environ.get("LOCAL_RANK", 0))\ntorch_npu.npu.set_device(local_rank)\n'
        'torch.distributed.init_process_group("hccl")\n'
        "model = Net().npu()\n"
        "model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank], output_device=local_rank)\n"
        "for epoch in range(3):\n    f()\ntorch.distributed.destroy_process_group()\n"
    )


def test_the_model_has_the_name_that_t_gives(distribute):
    text = distribute("import torch\nnet = Net()\nmodel = 1\n", "-t", "net")
    assert "net = torch.nn.parallel.DistributedDataParallel(net.npu(), device_ids=[local_rank]" in text


@pytest.mark.parametrize(
    ("script", "asked", "meant"),
    [
        ("model = Net().cuda()\nopt = SGD(model.parameters())\n", ["-t", "modle"], "did you mean -t model?"),
        ("net = Net().cuda()\nopt = SGD(net.parameters())\n", [], "did you mean -t net?"),
        ("net = Net().cuda()\nopt = SGD(net.parameters())\n", ["-t", "encoder"], "did you mean -t net?"),
        ("run(Net().cuda())\n", [], "name the model's variable with -t, or wrap it by hand"),
    ],
    ids=["near", "default", "far", "none"],
)
def test_a_model_that_is_not_there_is_a_failure(run, tmp_path, script, asked, meant):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.py").write_text("import torch\n" + script)
    wanted = asked[-1] if asked else "model"
    said = (
        f"pytorch_gpu2npu: distributed: train.py: no variable {wanted} is made in this script, so nothing is wrapped in "
        f"DistributedDataParallel, and the ranks would train apart: {meant}\n"
    )
    for quiet in ([], ["--quiet"], ["--json"]):
        done = run("-i", "in", "-o", "out", "--yes", *quiet, "distributed", "-m", "in/train.py", *asked, code=1)
        assert done.stderr.decode() == said
    assert json.loads(done.stdout)["exit_code"] == 1
    run("-i", "in", "--check", "distributed", "-m", "in/train.py", *asked, code=1)
    assert "init_process_group" in (tmp_path / "out" / "in_msft_multi" / "train.py").read_text()


def test_an_entry_script_that_runs_nothing_is_a_failure(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.py").write_text("import torch\n\ndef main():\n    model = N().cuda()\n")
    done = run("-i", "in", "-o", "out", "distributed", "-m", "in/train.py", code=1)
    assert b"the entry script runs nothing, so no process group is made: name the script" in done.stderr


def test_steps_left_to_the_user_are_on_the_terminal(run, tmp_path):
    script = "import torch\nmodel = N().cuda()\ntrain_loader = torch.utils.data.DataLoader(d, sampler=s)\n"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.py").write_text(script)
    done = run("-i", "in", "-o", "out", "distributed", "-m", "in/train.py")
    assert b"left to you: train.py:3: DataLoader: has a sampler of its own: make each rank read" in done.stdout


def test_data_parallel_gives_way(distribute):
    text = distribute("import torch\nmodel = Net().cuda()\nmodel = torch.nn.DataParallel(model)\n")
    assert "DataParallel(model)" not in text.replace("DistributedDataParallel(model,", "")
    assert text.count("DistributedDataParallel(model,") == 1


def test_a_dataset_made_in_place_is_made_once(distribute):
    text = distribute(
        "import torch\nmodel = N().cuda()\ntrain_loader = torch.utils.data.DataLoader(Data('x'), 8, True)\n"
    )
    assert "train_loader_dataset = Data('x')\n" in text
    assert "DistributedSampler(train_loader_dataset)\n" in text
    assert "DataLoader(train_loader_dataset, 8, False, sampler=train_sampler)" in text


def test_a_loader_with_a_sampler_of_its_own_is_left_and_listed(distribute, tmp_path):
    text = distribute("import torch\nmodel = N().cuda()\ntrain_loader = torch.utils.data.DataLoader(d, sampler=s)\n")
    assert "DataLoader(d, sampler=s)" in text
    assert "sampler of its own" in (tmp_path / "out" / "in_msft_multi" / "msFmkTranspltlog.txt").read_text()


def test_other_files_of_the_tree(distribute, tmp_path):
    loaders = "import torch\nfrom torch.utils.data import DataLoader\n\ndef get(train_set):\n    return DataLoader(train_set, shuffle=True)\n"
    save = "import torch\ndef keep(x):\n    torch.save(x, 'a')\n"
    distribute("import torch\nmodel = N().cuda()\n", others={"loaders.py": loaders, "save.py": save})
    folder = tmp_path / "out" / "in_msft_multi"
    assert (
        "DataLoader(train_set, sampler=torch.utils.data.distributed.DistributedSampler(train_set))"
        in (folder / "loaders.py").read_text()
    )
    assert (
        "    if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0: torch.save(x, 'a')\n"
        in (folder / "save.py").read_text()
    )


def test_scripts_that_are_distributed_already_keep_their_shape(distribute):
    text = distribute("import torch\ntorch.distributed.init_process_group('nccl')\nmodel = N().cuda(args.gpu)\n")
    assert (
        text
        == "import torch_npu\nimport torch\ntorch.distributed.init_process_group('hccl')\nmodel = N().npu(args.gpu)\n"
    )


def test_an_entry_script_outside_of_the_input(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.py").write_text("x = 1\n")
    (tmp_path / "b.py").write_text("x = 1\n")
    assert b"no Python file of the input" in run("-i", "in", "-o", "out", "distributed", "-m", "b.py", code=1).stderr


# --- the launcher: it runs any script, so these need no torch ---------------------------------------------------------

PROBE = "import os, sys\nprint('RANK', *(os.environ[n] for n in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'RANK_SIZE', 'DEVICE_ID')), *sys.argv[1:])\n"
EIGHT_CARDS = (
    "import os\nassert 'ASCEND_RT_VISIBLE_DEVICES' not in os.environ\nclass npu:\n    device_count = lambda: 8\n"
)


@pytest.fixture
def launch(distribute, tmp_path):
    def call(script: str, *arguments: str, **variables: str):
        distribute("import torch\nmodel = N().cuda()\n")
        folder, machine = tmp_path / "out" / "in_msft_multi", tmp_path / "machine"
        (folder / "train.py").write_text(script)
        machine.mkdir(exist_ok=True)
        (machine / "torch.py").write_text("")
        (machine / "torch_npu.py").write_text(EIGHT_CARDS)
        clean = {name: value for name, value in os.environ.items() if name != "ASCEND_RT_VISIBLE_DEVICES"}
        done = subprocess.run(
            ["bash", folder / "run_distributed_npu.sh", *arguments], capture_output=True, text=True, timeout=300,
            stdin=subprocess.DEVNULL, env=clean | {"PYTHONPATH": str(machine)} | variables, cwd=tmp_path,
        )  # fmt: skip
        return done, folder

    return call


@pytest.mark.parametrize(
    "variables",
    [{"NPUS": "4 6"}, {"NPUS": "4,6"}, {"NPUS": " 6, 4 "}, {"ASCEND_RT_VISIBLE_DEVICES": "4,6"},
     {"NPUS": "4 6", "ASCEND_RT_VISIBLE_DEVICES": "0"}],
    ids=["blanks", "commas", "both", "visible", "npus first"],
)  # fmt: skip
def test_the_launcher_gives_each_process_its_rank_and_card(launch, variables):
    done, folder = launch(PROBE, "--epochs", "3", **variables)
    assert done.returncode == 0, done.stderr
    assert "RANK 0 0 2 2 4 --epochs 3" in done.stdout
    assert (folder / "output_npu_6.log").read_text() == "RANK 1 1 2 2 6 --epochs 3\n"


def test_the_launcher_takes_all_cards_there_are(launch):
    done, folder = launch(PROBE)
    assert done.returncode == 0, done.stderr
    assert (folder / "output_npu_7.log").read_text() == "RANK 7 7 8 8 7\n"


@pytest.mark.parametrize(("npus", "said"), [
    ("0 9", "there is no card 9: torch_npu finds 8, counted from 0"),
    ("npu:1", 'npu:1 is no card: give numbers, NPUS="0 1"'),
    ("0,1,1", "a card is named twice: 0 1 1"),
    (",", 'no card; set NPUS="0 1"'),
])  # fmt: skip
def test_the_launcher_refuses_cards_that_are_not_there(launch, npus, said):
    done, folder = launch(PROBE, NPUS=npus)
    assert (done.returncode, done.stderr, done.stdout) == (1, f"run_distributed_npu.sh: {said}\n", "")
    assert not list(folder.glob("output_npu_*"))


def test_the_launcher_returns_the_failing_code_and_stops_the_others(launch):
    script = "import os, sys, time\nif os.environ['RANK'] == '1':\n    print(*range(40), sep='\\n')\n    sys.exit(7)\n"
    done, folder = launch(script + "time.sleep(600)\n", NPUS="4 6")
    assert done.returncode == 7
    told, *shown = done.stderr.splitlines()
    assert told.endswith(f" ended with 7; the others are stopped. Its log, {folder}/output_npu_6.log, ends:")
    assert shown == [f"    {number}" for number in range(30, 40)]
