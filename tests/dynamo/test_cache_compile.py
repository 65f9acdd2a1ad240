"""torch.npu.npugraph_ex.inference.cache_compile: what one process compiled, another runs without tracing, unless
something that counts is another; what cannot be kept. The file itself: test_cache_file.py."""

from __future__ import annotations

import copy
import textwrap

import pytest
import torch
from torch._dynamo.utils import counters

from tests import forked
from tests.dynamo.cached_model import DEVICE, arguments, file_of, fresh, inference, run


def test_a_second_model_runs_the_file_without_tracing(tmp_path):
    assert run(fresh(tmp_path)) == ([], 1)
    assert run(fresh(tmp_path)) == ([], 0)
    path = file_of(tmp_path)
    assert path.parent.name == "step" and path.parent.parent.name.startswith("Model_dynamic_aclgraphcache_")
    assert path.stat().st_mode & 0o777 == 0o600


def test_parameters_are_those_of_the_model(folder):
    model = fresh(folder)
    with torch.no_grad():
        model.linear.weight.fill_(2.0)
    assert run(model) == ([], 0)
    model.linear.weight = torch.nn.Parameter(torch.full((2, 4), -1.0, device=DEVICE))
    assert run(model) == ([], 0)


def test_sizes_are_free_if_dynamic_and_fixed_if_not(tmp_path):
    for dynamic in (True, False):
        run(fresh(tmp_path / str(dynamic), dynamic=dynamic))
        model = fresh(tmp_path / str(dynamic), dynamic=dynamic)
        assert run(model) == ([], 0)
        said, traced = run(model, rows=5)
        assert traced == (0 if dynamic else 1) and len(said) == traced
        if said:
            assert "L['x']['data'] is float32[5, 4] on npu:0" in said[0] and "made for float32[3, 4]" in said[0]


def test_what_a_size_must_fulfil_is_kept(folder):
    assert "L['x']['data'].size()[0]" in inference.readable_cache(file_of(folder), print_output=False)
    model = fresh(folder)
    run(model)
    with (
        pytest.warns(UserWarning, match="compiled anew: .* is 9; the graph was made for 2 to 8"),
        pytest.raises(Exception),
    ):
        model.cached(*arguments(9))  # `seen` has 8 rows


class Special(torch.nn.Linear):
    pass


def specialize(model):
    special = Special(4, 2).npu()
    special.load_state_dict(model.linear.state_dict())
    model.linear = special


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: setattr(m, "bonus", 2.0), "the value of L['self'].bonus is 2.0; the graph was made for 1.0"),
        (
            specialize,
            "the type of L['self']._modules['linear'] is 'tests.dynamo.test_cache_compile.Special'; the graph",
        ),
    ],
)
def test_another_module_is_compiled_anew(tmp_path, change, said):
    """Under the name of the first: the name is made of types and shapes, too."""
    run(fresh(tmp_path / "first"))
    other = fresh(tmp_path / "other")
    change(other)
    assert run(other) == ([], 1)
    path = file_of(tmp_path / "other")
    path.write_bytes(file_of(tmp_path / "first").read_bytes())
    other = fresh(tmp_path / "other")
    change(other)
    messages, traced = run(other)
    assert traced == 1 and len(messages) == 1 and said in messages[0], messages
    other = fresh(tmp_path / "other")
    change(other)
    assert run(other) == ([], 0)  # the file was replaced


def test_a_hook_is_noticed(folder):
    model = fresh(folder)
    model.linear.register_forward_hook(lambda *_: None)
    messages, traced = run(model)
    assert traced == 1 and "the length of L['self']._modules['linear']._forward_hooks is 1; the graph" in messages[0]


def copied(tmp_path, **settings):
    """The file of a model under the name that another model's would have."""
    run(fresh(tmp_path / "a"))
    run(fresh(tmp_path / "b", **settings), width=settings.get("width", 4))
    theirs = file_of(tmp_path / "b")
    theirs.write_bytes(file_of(tmp_path / "a").read_bytes())
    return tmp_path / "b"


def test_other_sizes_of_weights_are_compiled_anew(tmp_path):
    folder = copied(tmp_path, width=6)
    said, traced = run(fresh(folder, width=6), width=6)
    assert traced == 1 and len(said) == 1 and "is float32[2, 6] on npu:0" in said[0]
    assert run(fresh(folder, width=6), width=6) == ([], 0)


def test_other_options_are_compiled_anew(tmp_path):
    folder = copied(tmp_path, options={"capture_limit": 3})
    said, traced = run(fresh(folder, options={"capture_limit": 3}))
    assert traced == 1 and len(said) == 1 and "made for options" in said[0]


class Refused(torch.nn.Module):
    calls = 0

    def __init__(self):
        super().__init__()
        self.list = []

    def view(self, x):
        return x[1:]

    def count(self, x):
        self.calls = self.calls + 1
        return x + self.calls

    def own_type(self, x):
        return torch.return_types.max((x, x)) if False else torch.Size([1]), x + 1

    def size(self, x):
        return x + 1, x.shape[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("view", "returns a view of an argument|did not compute"),
        ("count", "changes .*self.*, which is no tensor"),
        ("own_type", "returns a Size|depends on"),
        ("size", "returns a int"),
    ],
)
def test_what_cannot_be_kept_is_compiled_in_each_process(tmp_path, name, said):
    for _ in range(2):
        torch._dynamo.reset()
        module = Refused().npu()
        step = inference.cache_compile(getattr(module, name), cache_dir=str(tmp_path))
        x = torch.arange(3.0, device=DEVICE)
        with pytest.warns(UserWarning, match=f"compiled in each process: it {said}"):
            first = step(x)
        eager = getattr(Refused(), name)(x)
        torch.testing.assert_close(first, eager)
    assert not list(tmp_path.rglob("compiled_module"))


def test_arguments_that_share_memory_are_compiled_anew(tmp_path):
    class Add(torch.nn.Module):
        def step(self, a, b):
            a.add_(b)
            return a * 2

    a, b = torch.ones(2, device=DEVICE), torch.ones(2, device=DEVICE)
    step = inference.cache_compile(Add().step, cache_dir=str(tmp_path))
    assert step(a, b).tolist() == [4.0, 4.0]
    torch._dynamo.reset()
    step = inference.cache_compile(Add().step, cache_dir=str(tmp_path))
    assert step(a, b).tolist() == [6.0, 6.0]
    both = torch.ones(2, device=DEVICE)
    with pytest.warns(UserWarning, match="shares memory with another"):
        assert step(both, both.view(2)).tolist() == [4.0, 4.0]


def test_a_gradient_is_refused(tmp_path):
    model = fresh(tmp_path)
    for _ in range(2):
        x, caches = arguments()
        x["data"].requires_grad_()
        with pytest.raises(RuntimeError, match=r"is for inference: L\['x'\]\['data'\] requires a gradient"):
            model.cached(x, caches)
        with torch.no_grad():
            x, caches = arguments()
            x["data"].requires_grad_()
            model.cached(x, caches)


def test_a_copy_of_the_module_computes_with_its_own_parameters(tmp_path):
    model = fresh(tmp_path)
    run(model)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.linear.weight.fill_(0.5)
    assert run(other) == ([], 0) and run(model)[0] == []


def test_decompositions_and_passes_are_part_of_what_is_compared(tmp_path):
    def halve(a, b):
        return a * 0.5

    class Add(torch.nn.Module):
        def step(self, a, b):
            return a + b

    x = torch.ones(2, device=DEVICE)
    given = {torch.ops.aten.add.Tensor: halve}
    for traced in (1, 0):
        torch._dynamo.reset()
        counters.clear()
        step = inference.cache_compile(Add().step, cache_dir=str(tmp_path), custom_decompositions=given)
        assert step(x, x).tolist() == [0.5, 0.5] and counters["stats"]["unique_graphs"] == traced
    plain = inference.cache_compile(Add().step, cache_dir=str(tmp_path))
    assert plain(x, x).tolist() == [2.0, 2.0]
    assert len(list(tmp_path.rglob("compiled_module"))) == 2


def test_numbers_among_the_arguments_are_free(tmp_path):
    class Scaled(torch.nn.Module):
        def step(self, x, count, factor=0.5):
            return x * count * factor

    for count in (5, 7):
        torch._dynamo.reset()
        counters.clear()
        step = inference.cache_compile(Scaled().step, cache_dir=str(tmp_path))
        assert step(torch.ones(3, device=DEVICE), count).tolist() == [count / 2] * 3
        assert counters["stats"]["unique_graphs"] == (count == 5)
    with pytest.warns(UserWarning, match=r"the value of L\['factor'\] is 0.25; the graph was made for 0.5"):
        assert step(torch.ones(3, device=DEVICE), count, factor=0.25).tolist() == [count / 4] * 3


def test_frozen_parameters_are_looked_up_once(tmp_path):
    run(fresh(tmp_path, options={"frozen_parameter": True}))
    model = fresh(tmp_path, options={"frozen_parameter": True})
    assert run(model) == ([], 0)
    x, caches = arguments()
    first = model.cached(x, caches)["y"].clone()
    model.linear.weight = torch.nn.Parameter(torch.zeros(2, 4, device=DEVICE))
    assert torch.equal(model.cached(x, caches)["y"], first)


def test_dropout_draws_as_eager_does(tmp_path):
    class Drop(torch.nn.Module):
        def step(self, x):
            return torch.nn.functional.dropout(x, 0.5)

    x = torch.ones(64, device=DEVICE)
    torch.manual_seed(3)
    wanted = [Drop().step(x) for _ in range(4)]
    for _ in range(2):
        torch._dynamo.reset()
        step = inference.cache_compile(Drop().step, cache_dir=str(tmp_path))
        torch.manual_seed(3)
        for value in wanted:
            assert torch.equal(step(x), value)


def test_what_is_given_must_be_a_method(tmp_path):
    with pytest.raises(TypeError, match="func is a method of a torch.nn.Module, such as self.decode, not <func"):
        inference.cache_compile(run)
    model = torch.nn.Linear(2, 2)
    with pytest.raises(TypeError, match="cache_dir is the path of a folder, not 3"):
        inference.cache_compile(model.forward, cache_dir=3)
    with pytest.raises(TypeError, match="dynamic is True, False or None, not 'no'"):
        inference.cache_compile(model.forward, dynamic="no")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file' is a file, and should be a folder"):
        inference.cache_compile(model.forward, cache_dir=tmp_path / "file")
    with pytest.raises(TypeError, match="has no argument backend"):
        inference.cache_compile(model.forward, backend="npu")
    with pytest.raises(ValueError, match="has no option clone"):
        inference.cache_compile(model.forward, options={"clone": True})
    with pytest.raises(ValueError, match="tp_rank is a rank, 0 or more, not -1"):
        inference.cache_compile(model.forward, tp_rank=-1)
    with pytest.raises(ValueError, match="dump_tensor_data is for torch.compile"):
        inference.cache_compile(model.forward, options={"dump_tensor_data": True})


class Doubled(torch.nn.Module):
    def step(self, x):
        return x * 2


def test_ranks_have_files_of_their_own(tmp_path):
    for rank in (0, 1):
        torch._dynamo.reset()
        step = inference.cache_compile(Doubled().step, cache_dir=str(tmp_path), global_rank=rank, tp_rank=rank)
        assert step(torch.ones(1, device=DEVICE)).tolist() == [2.0]
    names = sorted(p.parts[-4:] for p in tmp_path.rglob("compiled_module"))
    assert [name[:3] for name in names] == [(f"world1global_rank{r}", f"tp_rank{r}", "step") for r in (0, 1)]


SCRIPT = """
    import sys, torch, torch_npu

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
            self.prompt = torch.npu.npugraph_ex.inference.cache_compile(self._prompt, cache_dir="cache")

        def _prompt(self, x, caches):
            caches[0].add_(x.sum())
            return self.net(x) FACTOR

    model, x, caches = Model().npu().eval(), torch.ones(3, 4).npu(), [torch.zeros(1).npu()]
    results = [model.prompt(x, caches) for _ in range(4)]
    wanted = model.net(x) FACTOR
    for result in results:
        torch.testing.assert_close(result, wanted.detach())
    print(caches[0].item(), "torch._dynamo.convert_frame" in sys.modules)
"""


def test_a_new_process_does_not_even_load_dynamo(tmp_path):
    def process(factor):
        script = textwrap.dedent(SCRIPT).replace("FACTOR", factor)
        (tmp_path / "program.py").write_text(script)
        done = forked.run(["program.py"], cwd=tmp_path, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.split(), done.stderr

    assert process("")[0] == ["48.0", "True"]
    assert process("")[0] == ["48.0", "False"]
    out, error = process("* 2")  # the source is another
    assert out == ["48.0", "True"] and error.count("the source of __main__ was another") == 1
