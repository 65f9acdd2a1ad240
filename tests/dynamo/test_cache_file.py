"""The file of torch.npu.npugraph_ex.inference.cache_compile: damaged, of others, or saying something else, it is
replaced with one message, and nothing in it is run. What it is written of: places, numbers, operators, arguments."""

from __future__ import annotations

import hashlib
import json
import os

import pytest
import torch

from tests.dynamo.cached_model import DEVICE, file_of, fresh, inference, run
from torch_npu.dynamo.npugraph_ex import cache_file, graph_text, places
from torch_npu.dynamo.npugraph_ex.cache_file import Unusable


def changed(path, change):
    """The file with its content changed, and a checksum that fits."""
    content = json.loads(path.read_bytes().partition(b"\n")[2])
    change(content)
    body = json.dumps(content).encode()
    path.write_bytes(f"{cache_file._FIRST}{hashlib.sha256(body).hexdigest()}\n".encode() + body)


def _operator(content, name, args, kwargs=None):
    (node, *_) = [node for node in content["graph"]["nodes"] if node["op"] == "call_function"]
    node.update(target=name, args=args, kwargs=kwargs or {})


def _lengths(content, **given):
    content["replay"]["lengths"] = {"free": [], "computed": [], "calls": [], **given}


# Where a keyword would become Python's text, the second line would be run.
INJECTED = "self = 1)\nopen('proof', 'w')\nprint(1, x"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c["made_by"].update(torch="2.0.0"), "made for torch 2.0.0, this is"),
        (lambda c: c["made_by"].update(chip="Ascend310"), "made for chip Ascend310"),
        (lambda c: c.pop("made_by"), "does not say what it was made by"),
        (lambda c: c["files"].update({"json": "0"}), "the source of json was another"),
        (lambda c: c["files"].update({"no.such": "0"}), "the module no.such has no file"),
        (lambda c: c.pop("graph"), "does not fit this module"),
        (lambda c: c["graph"]["nodes"].pop(0), "does not fit this module"),
        (lambda c: c["inputs"].pop(0), "the graph has"),
        (lambda c: _operator(c, "os::system.default", ["true"]), "there is no operator os::system.default"),
        (lambda c: _operator(c, "os.system", ["true"]), "'os.system' is not an operator"),
        (lambda c: _operator(c, "aten::from_file.default", ["/etc/passwd"]), "no operator that a file may name"),
        (lambda c: _operator(c, "aten::save.default", [{"tuple": []}, "/tmp/x"]), "operator"),
        (lambda c: _operator(c, "debugprims::load_tensor.default", ["x"]), "no operator that a file may name"),
        (lambda c: _operator(c, "aten::relu.default", [], {INJECTED: 1}), "relu.default has no arguments"),
        (lambda c: _operator(c, "aten::relu.default", [{"float": "0x1p99999"}]), "does not fit this module"),
        (lambda c: c["graph"]["nodes"][0].update(name="x):\n  pass\nimport os"), "is not the name of a node"),
        (lambda c: c["inputs"][0].update(stride=["1"]), "a tensor has other strides than sizes"),
        (lambda c: c["numbers"].append(["L['x']", "1"]), "the graph was made for 1"),
        (lambda c: c["conditions"].append("1 // 0"), "ZeroDivisionError"),
        (lambda c: c["conditions"].append("+".join(["1"] * 5000)), "is not a number"),
        (lambda c: c["facts"].append(["eval", "L['self']", "1"]), "does not fit this module"),
        (lambda c: c["replay"].update(mutated=[True, 1.5]), "the graph has"),
        (lambda c: c.update(result=["output", 99]), "is nothing to return"),
        (lambda c: c.update(result=["place", "G['__import_os'].environ"]), "is nothing to return"),
        (lambda c: _operator(c, "aten::relu.default", [{"node": "absent"}]), "is not an argument"),
        (lambda c: _operator(c, "aten::relu.default", [{"eval": "1"}]), "is not an argument"),
        (lambda c: c["inputs"][0].update(place="__import__('os').getcwd()"), "is not a place"),
        (lambda c: c["inputs"][0].update(place="L['self'].__init__"), "is not a place"),
        (lambda c: c["inputs"][0].update(place="L['self'].step()"), "is not a place"),
        (lambda c: c["inputs"][0].update(place="L['self'].absent.weight"), "does not fit this module"),
        (lambda c: c["conditions"].append("exec('1')"), "is not a number"),
        (lambda c: c["conditions"].append("2 ** 999999999"), "is not a number"),
        (lambda c: c["conditions"].append("1 > 2"), "the graph was made for 1 > 2"),
        (lambda c: c.update(result=["call", "os.system"]), "is nothing to return"),
        (lambda c: c["replay"].update(device=99), "there is no npu:99"),
        (lambda c: c["replay"].update(mutated=[77]), "the graph has"),
        (lambda c: _lengths(c, calls=[[2, ["absent"]]]), "does not fit this module"),
        (lambda c: _lengths(c, computed=[len(c["graph"]["nodes"]) - 2]), "is not computed of numbers"),
        (lambda c: _lengths(c, free=[0]), "a length is a tensor"),
        (lambda c: _lengths(c, free=[99]), "does not fit this module"),
        (lambda c: c.update(state=[]), "default type, autocast and determinism are"),
    ],
)
def test_a_file_that_says_something_else_is_replaced(folder, change, said, monkeypatch):
    path = file_of(folder)
    monkeypatch.chdir(folder.parent)
    changed(path, change)
    messages, traced = run(fresh(folder))
    assert traced == 1 and len(messages) == 1 and said in messages[0] and str(path) in messages[0]
    assert run(fresh(folder)) == ([], 0)
    assert not (folder.parent / "proof").exists()


@pytest.mark.parametrize("cut", [0, 10, 300, -1])
def test_a_truncated_file_is_replaced(folder, cut):
    path = file_of(folder)
    path.write_bytes(path.read_bytes()[:cut])
    messages, traced = run(fresh(folder))
    assert traced == 1 and len(messages) == 1 and ("damaged" in messages[0] or "of this version" in messages[0])
    assert run(fresh(folder)) == ([], 0)


def test_a_pickle_is_not_loaded(folder, tmp_path):
    path, proof = file_of(folder), tmp_path / "proof"

    class Evil:
        def __reduce__(self):
            return open, (str(proof), "w")

    torch.save(Evil(), path)
    assert len(run(fresh(folder))[0]) == 1 and not proof.exists()


def test_a_file_that_others_may_write_is_not_read(folder):
    path = file_of(folder)
    path.chmod(0o666)
    messages, traced = run(fresh(folder))
    assert traced == 1 and "others may write it (mode 666)" in messages[0] and path.stat().st_mode & 0o777 == 0o600
    if os.getuid() == 0:
        os.chown(path, 12345, -1)
        assert "belongs to another user (12345)" in run(fresh(folder))[0][0]


def test_a_pipe_in_the_place_of_the_file_stops_nothing(folder):
    path = file_of(folder)
    path.unlink()
    os.mkfifo(path)
    assert "it is no file" in run(fresh(folder))[0][0]


def test_readable_cache(folder, tmp_path, capsys):
    path = file_of(folder)
    text = inference.readable_cache(str(path), file=str(tmp_path / "step.py"))
    assert capsys.readouterr().out == text == (tmp_path / "step.py").read_text()
    assert f"# torch: {torch.__version__}" in text and "torch.ops.aten.addmm.default" in text
    assert "L['self']._modules['linear']._parameters['weight'], float32[2, 4]" in text
    compile(text, "step.py", "exec")
    with pytest.raises(FileNotFoundError):
        inference.readable_cache(tmp_path / "absent")
    changed(path, lambda c: c["files"].update({"a\nimport os\x1b": "0"}))
    text = inference.readable_cache(path, print_output=False)
    assert "# source: a\\nimport os\\x1b 0" in text and "\nimport os" not in text
    changed(path, lambda c: c.pop("inputs"))
    with pytest.raises(ValueError, match="is not a compiled_module: 'inputs'"):
        inference.readable_cache(path)
    path.write_text("import os")
    with pytest.raises(ValueError, match="it is not a compiled_module of this version"):
        inference.readable_cache(path)


@pytest.mark.parametrize(
    "text",
    [
        "L",
        "L[0]",
        "L['a'](1)",
        "L['a'].b()",
        "X['a']",
        "L['a'][b]",
        "L['a'].__globals__",
        "L['a'].__init__",
        "L['a'].__subclasses__()",
        "type(L['a'], 1)",
        "dict(L['a'])",
        "list(L['a'])[0]",
        "dict.__getitem__(L['a'], list(dict.keys(L['b']))[0])",
        "dict.__getitem__(L['a'], 'b')",
        "list(dict.keys(L['a'], 1))[0]",
        "list(dict.keys(L['a']))[b]",
        "id(L['a'])",
        "L['a'",
    ],
)
def test_places_are_names_attributes_and_items(text):
    with pytest.raises(ValueError, match="is not a place"):
        places.parse(text)


def test_places_and_numbers():
    class Thing:
        inner = [torch.zeros(2, 5)]

    scope = {"L": {"a": {"k": Thing()}}, "G": {"n": 7}}
    assert places.find("L['a']['k'].inner[0].size()[1]", scope) == 5 and places.find("G['n']", scope) == 7
    assert places.find("dict(type(L['a']['k']).__mro__[0].__dict__)['inner'][0].size()[1]", scope) == 5
    assert places.find("list(dict.keys(L['a']))[0]", scope) == "k"
    assert places.find("dict.__getitem__(L['a'], list(dict.keys(L['a']))[0])", scope) is scope["L"]["a"]["k"]
    with pytest.raises(TypeError, match="a Thing has no size"):
        places.find("L['a']['k'].size()", scope)
    numbers = {"s0": 12, "s1": 5}
    for expression in (
        "s0 // 5 == 2",
        "s0 % s1 == 2 and s0 > s1",
        "max(3, s1, s0) == 12",
        "not s0 < s1",
        "-s1 * 2 + s0 == 2",
    ):
        assert places.number(expression)(numbers) is True
    assert places.number("-17") == -17
    for expression in ("s0.real", "s0[0]", "open('x')", "[s0]", "s0 ** 2", "lambda: 1", "1 < s0 < 3", ""):
        with pytest.raises(ValueError):
            places.number(expression)


def test_every_kind_of_argument_is_written_and_read():
    values = [
        1, -2.5, float("inf"), True, None, "text", torch.float16, torch.device("npu:1"), torch.strided,
        torch.channels_last, [1, [2.0]], (1, (None,)), slice(1, None, 2),
    ]  # fmt: skip
    for value in values:
        again = graph_text.value_of(json.loads(json.dumps(graph_text.value_text(value))), {})
        assert again == value and type(again) is type(value)
    with pytest.raises(ValueError, match="a complex among its arguments"):
        graph_text.value_text(1j)


class Doubled(torch.nn.Module):
    def step(self, x):
        return x * 2


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    step = inference.cache_compile(Doubled().step, cache_dir=str(tmp_path / "file" / "below"))
    with pytest.warns(UserWarning, match="compiled_module cannot be written, so each process compiles anew"):
        assert step(torch.ones(1, device=DEVICE)).tolist() == [2.0]
    with pytest.raises(Unusable, match="it is not a compiled_module"):
        cache_file.read(str(tmp_path / "file"))


def test_what_is_said_of_a_file_that_does_not_fit_is_not_what_it_was_made_of(tmp_path):
    def compiled(device):
        torch._dynamo.reset()
        return inference.cache_compile(Doubled().step, cache_dir=str(tmp_path))(torch.ones(1, device=device))

    with pytest.warns(UserWarning, match="an argument is a tensor on cpu") as made:
        compiled("cpu")
    with pytest.warns(UserWarning, match="is compiled anew: .* on npu:0, .* was made for .* on cpu") as found:
        assert compiled(DEVICE).tolist() == [2.0]
    said = [[str(each.message) for each in told if "a tensor on cpu" in str(each.message)] for told in (made, found)]
    assert [len(each) for each in said] == [1, 0]
