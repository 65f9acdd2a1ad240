"""torch_npu.print_npugraph_tensor, save_npugraph_tensor: what a stream or a replayed graph passes, printed or saved."""

from __future__ import annotations

import pytest
import torch

import torch_npu
from tests.core import tools


def ready() -> torch.Tensor:
    return torch.arange(6, dtype=torch.float32).reshape(2, 3).npu()


def test_printed(capsys):
    x = ready()
    torch_npu.print_npugraph_tensor(x.t(), tensor_name="x")
    x.fill_(9)  # behind it in the stream
    torch_npu.print_npugraph_tensor(x[0])
    torch.npu.synchronize()
    assert capsys.readouterr().out == (
        "x=tensor([[0., 3.],\n        [1., 4.],\n        [2., 5.]]), shape=(3, 2), dtype=torch.float32\n"
        "tensor([9., 9., 9.]), shape=(3,), dtype=torch.float32\n"
    )


def test_each_replay_prints(capsys):
    x, graph = ready(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        torch_npu.print_npugraph_tensor(x * 2, tensor_name="twice")
    assert capsys.readouterr().out == ""
    for start in (1.0, 5.0):
        x.fill_(start)
        graph.replay()
    torch.npu.synchronize()
    text = "twice=tensor([[{0}., {0}., {0}.],\n        [{0}., {0}., {0}.]]), shape=(2, 3), dtype=torch.float32\n"
    assert capsys.readouterr().out == text.format("2") + text.format("10")
    graph.reset()


def test_saved(tmp_path):
    x, path = ready(), tmp_path / "x.pt"
    for n in range(2):
        torch_npu.save_npugraph_tensor(x + n, save_path=str(path))
    torch_npu.save_npugraph_tensor(x, save_path=str(path), overwrite=True)
    torch_npu.save_npugraph_tensor(x * 3, save_path=str(path), overwrite=True)
    torch_npu.save_npugraph_tensor([x, x[0].half()], save_path=str(tmp_path / "list.bin"))
    torch.npu.synchronize()
    device = x.device.index
    names = [f"x_device_{device}{end}.pt" for end in ("_0", "_1", "")] + [f"list_device_{device}_0.bin"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)
    first, second, last = (torch.load(tmp_path / name) for name in names[:3])
    assert torch.equal(first, x.cpu()) and torch.equal(second, x.cpu() + 1) and torch.equal(last, x.cpu() * 3)
    a, b = torch.load(tmp_path / names[3])
    assert torch.equal(a, x.cpu()) and torch.equal(b, x[0].cpu().half()) and b.dtype == torch.float16


def test_each_replay_saves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, graph = ready(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        torch_npu.save_npugraph_tensor(x, save_path="x.pt")
        torch_npu.save_npugraph_tensor(x + 1)
    for start in (1.0, 2.0):
        x.fill_(start)
        graph.replay()
    torch.npu.synchronize()
    found = {p.name: torch.load(p) for p in tmp_path.iterdir()}
    device = x.device.index
    assert [found[f"x_device_{device}_{n}.pt"][0, 0].item() for n in range(2)] == [1.0, 2.0]
    named_by_time = [value for name, value in sorted(found.items()) if name.startswith("tensor_")]
    assert [value[0, 0].item() for value in named_by_time] == [2.0, 3.0]
    graph.reset()


def test_compiled_functions_print(capsys):
    def function(x):
        y = x + 1
        torch_npu.print_npugraph_tensor(y, tensor_name="y")
        return y * 2

    assert torch.compile(function, backend="aot_eager", fullgraph=True)(ready()[0]).tolist() == [2.0, 4.0, 6.0]
    torch.npu.synchronize()
    assert capsys.readouterr().out == "y=tensor([1., 2., 3.]), shape=(3,), dtype=torch.float32\n"


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        torch_npu.save_npugraph_tensor(ready(), save_path=str(tmp_path / "none" / "x.pt"))
    with pytest.raises(ValueError, match="names no file with an ending"):
        torch_npu.save_npugraph_tensor(ready(), save_path=str(tmp_path / "x"))
    with pytest.raises(NotImplementedError, match="runs on the npu only"):
        torch_npu.print_npugraph_tensor(torch.ones(2))


def test_a_graph_is_reset_behind_its_replays(capsys):
    x, graph = ready(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        torch_npu.print_npugraph_tensor(x * 2)
    for _ in range(20):
        graph.replay()
    graph.reset()
    torch.npu.synchronize()
    assert capsys.readouterr().out.count("shape=(2, 3)") == 20


def test_who_holds_pythons_lock_may_wait_for_the_stream(tmp_path, capsys):
    """torch.save does: a stream that waited for the lock would wait for ever."""
    x = ready()
    for _ in range(30):
        torch_npu.print_npugraph_tensor(x)
        torch.save(x, tmp_path / "x.pt")
        torch.npu.empty_cache()
    torch.npu.synchronize()
    assert capsys.readouterr().out.count("shape=(2, 3)") == 30


def test_the_last_is_printed_before_the_program_ends():
    program = "import torch, torch_npu; torch_npu.print_npugraph_tensor(torch.ones(3).npu(), tensor_name='x')"
    done = tools.run(program)
    assert (done.returncode, done.stdout) == (0, "x=tensor([1., 1., 1.]), shape=(3,), dtype=torch.float32\n"), (
        done.stderr
    )
