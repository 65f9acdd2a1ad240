"""torch.compile(backend="npugraph_ex"): each option's effect, what is refused, and the names around it."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch._functorch.aot_autograd import aot_module_simplified

import torch_npu.dynamo
from tests.dynamo.counting import counted
from torch_npu.dynamo.npugraph_ex.options import REFUSED, Options

DEVICE = "npu"
npu = torch.npu


def compiled(function, **options):
    return torch.compile(function, backend="npugraph_ex", options=options)


def runs(function, *, times=3, size=4, **options):
    """Captures and replays of function(x), checked against eager."""
    step = compiled(function, **options)
    with counted() as counts:
        for _ in range(times):
            x = torch.randn(size, device=DEVICE)
            torch.testing.assert_close(step(x), function(x))
    return counts.captures, counts.replays


def test_force_eager():
    assert runs(lambda x: x * 2 + 1, force_eager=True) == (0, 0)


def test_capture_limit():
    step = torch.compile(lambda x: x * 2, backend="npugraph_ex", options={"capture_limit": 1}, dynamic=True)
    with counted() as counts, pytest.warns(UserWarning, match="captured 1 times"):
        for _ in range(2):
            for size in (3, 4):
                assert step(torch.ones(size, device=DEVICE)).tolist() == [2.0] * size
    assert counts.captures == 1


def test_clone_input_off_reads_arguments_where_they_are():
    step = compiled(lambda x: x * 2, clone_input=False)
    a, b = torch.ones(4, device=DEVICE), torch.full((4,), 3.0, device=DEVICE)
    with counted() as counts:
        for x in (a, a, b, b, a):
            assert torch.equal(step(x), x * 2)
    assert (counts.captures, counts.replays) == (2, 4)


def test_clone_output_returns_memory_of_its_own():
    for option in (False, True):
        step = compiled(lambda x: x * 2, clone_output=option)
        x = torch.ones(4, device=DEVICE)
        step(x)
        first = step(x)
        where = first.data_ptr()
        second = step(x)
        assert (first.data_ptr() == where) == option and second.tolist() == first.tolist() == [2.0] * 4


def test_frozen_parameter_takes_the_address_once():
    for option in (False, True):
        weight = torch.nn.Parameter(torch.ones(4, device=DEVICE))
        step = compiled(lambda x, w=weight: x * w, frozen_parameter=option)
        x = torch.ones(4, device=DEVICE)
        with torch.no_grad(), counted() as counts:
            step(x), step(x)
            weight.add_(1)
            assert step(x).tolist() == [2.0] * 4
            old = weight.data  # keeps the address
            weight.data = torch.full((4,), 5.0, device=DEVICE)
            assert step(x).tolist() == [2.0 if option else 5.0] * 4 and old.tolist() == [2.0] * 4
        assert counts.captures == (1 if option else 2)


def test_pools():
    handle = npu.graph_pool_handle()

    def private():
        return {tuple(s["segment_pool_id"]) for s in npu.memory_snapshot()} - before

    before = {tuple(s["segment_pool_id"]) for s in npu.memory_snapshot()}
    assert runs(lambda x: x + 7, use_graph_pool=handle) == (1, 2)
    assert handle in private()
    npu.synchronize()
    step = torch.compile(
        lambda x: x * 5, backend="npugraph_ex", options={"reuse_graph_pool_in_same_fx": False}, dynamic=True
    )
    for _ in range(2):
        for size in (3, 4):
            assert step(torch.ones(size, device=DEVICE)).tolist() == [5.0] * size
    assert len(private() - {handle}) >= 2


def test_custom_passes_see_the_graph_before_and_after():
    seen = []

    def record(module, inputs, options):
        seen.append(([n.target.__name__ for n in module.graph.nodes if n.op == "call_function"], len(inputs), options))

    options = {"post_grad_custom_pre_pass": record, "post_grad_custom_post_pass": record, "capture_limit": 5}
    assert runs(lambda x: (x * 2).clone().relu(), **options) == (1, 2)
    before, after = seen
    assert before[0] == ["mul.Tensor", "clone.default", "relu.default"] and before[1] == 1
    assert after[0] == ["mul.Tensor", "relu_.default"] and after[2].capture_limit == 5


def test_a_custom_pass_changes_what_is_computed():
    def double(module, inputs, options):
        for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor):
            node.args = (node.args[0], 4)

    step = compiled(lambda x: x * 2, post_grad_custom_pre_pass=double)
    assert [step(torch.ones(2, device=DEVICE)).tolist() for _ in range(3)] == [[4.0, 4.0]] * 3


def test_dumped_tensors(tmp_path):
    for stage in ("optimized", "original"):
        folder = tmp_path / stage
        folder.mkdir()
        step = compiled(
            lambda x: (x + 1).relu(), dump_tensor_data=True, data_dump_dir=str(folder), data_dump_stage=stage
        )
        with counted() as counts:
            x = torch.tensor([-3.0, 1.0], device=DEVICE)
            assert step(x).tolist() == step(x).tolist() == [0.0, 2.0]
        assert counts.captures == 0
        files = sorted(p.name for p in (folder / "worldsize1_global_rank0").iterdir())
        assert len(files) == 6  # the argument and two operators, twice
        (relu,) = (folder / "worldsize1_global_rank0").glob("relu*_1.pt")
        assert torch.load(relu).tolist() == [0.0, 2.0]


def test_capture_error_mode():
    assert runs(lambda x: x + 1, capture_error_mode="relaxed") == (1, 2)


@pytest.mark.parametrize(("skip", "said"), [(False, "needs the host in the middle"), (True, "waits for the device")])
def test_without_validation_the_capture_itself_finds_what_is_wrong(skip, said):
    step = compiled(lambda x: x * x.long().sum().item(), unsafe_skip_npugraph_capture_validation=skip)
    x = torch.ones(4, device=DEVICE)
    with torch._dynamo.config.patch(capture_scalar_outputs=True), pytest.warns(UserWarning, match=said):
        assert [step(x).tolist() for _ in range(3)] == [[4.0] * 4] * 3


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_options(name):
    assert Options.read({name: False}) == Options()
    with pytest.raises(ValueError, match=f"the option {name} is not implemented: .*; leave it out"):
        Options.read({name: True})


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        (
            "clone_inputs",
            True,
            r"no option clone_inputs; it has capture_error_mode, (?!.*deadlock_check).*\. Did you mean clone_input\?",
        ),
        ("clone_input", "yes", "clone_input is True or False, not 'yes'"),
        ("capture_limit", 0, "capture_limit is a positive number, not 0"),
        ("capture_limit", True, "capture_limit is a positive number, not True"),
        ("data_dump_dir", 3, "data_dump_dir is a folder that exists, not 3"),
        ("clone_input", torch.ones(2), "clone_input is True or False"),
        ("use_graph_pool", 3, "use_graph_pool is what torch.npu.graph_pool_handle"),
        ("capture_error_mode", "wild", "'global', 'thread_local' or 'relaxed', not 'wild'"),
        ("data_dump_stage", "late", "'original' or 'optimized', not 'late'"),
        ("post_grad_custom_pre_pass", 3, "post_grad_custom_pre_pass is a function, not 3"),
        (
            "mode",
            "max-autotune",
            r"the option mode is 'npugraph_ex' or 'reduce-overhead', which are the same \(max-.*\), not 'max-autotune'",
        ),
    ],
)
def test_values_that_are_none(option, value, error):
    with pytest.raises(ValueError, match=error):
        Options.read({option: value})


def test_a_folder_for_dumps_must_exist(tmp_path):
    with pytest.raises(ValueError, match="data_dump_dir is a folder that exists"):
        Options.read({"dump_tensor_data": True, "data_dump_dir": str(tmp_path / "none")})


def test_all_options_of_the_vendor_are_known():
    known = {*Options.__dataclass_fields__, *REFUSED}
    assert len(known) == 28


def test_npu_is_npugraph_ex_and_says_so_once():
    torch_npu.dynamo._say_what_npu_is.cache_clear()
    with warnings.catch_warnings(record=True) as caught, counted() as counts:
        warnings.simplefilter("always")
        for factor in (2, 3):
            step = torch.compile(lambda x, factor=factor: x * factor, backend="npu", options={"clone_output": True})
            assert [step(torch.ones(2, device=DEVICE))[0].item() for _ in range(3)] == [factor] * 3
    said = [str(w.message) for w in caught if 'backend="npu"' in str(w.message)]
    assert len(said) == 1 and "npugraph_ex" in said[0] and counts.captures == 2


@pytest.mark.parametrize("style", ["graph", "compiler"])
def test_compile_fx_in_a_back_end_of_ones_own(style):
    def compile_graph(module, inputs):
        return npu.npugraph_ex.compile_fx(module, inputs, {"clone_input": False})

    def backend(module, inputs):
        compiler = compile_graph if style == "graph" else npu.npugraph_ex.compile_fx()
        return aot_module_simplified(module, inputs, fw_compiler=compiler)

    step = torch.compile(lambda x, y: x + y, backend=backend)
    x = torch.ones(2, 2, dtype=torch.int32, device=DEVICE)
    with counted() as counts:
        assert [step(x, x).tolist() for _ in range(3)] == [[[2, 2], [2, 2]]] * 3
    assert counts.captures == 1


def test_the_entry_points_are_registered():
    assert {"npu", "npugraph_ex", "npugraphs"} <= set(torch._dynamo.list_backends())


def test_options_are_a_dictionary():
    with pytest.raises(TypeError, match=r"options is a dictionary, not \[1\]"):
        Options.read([1])
