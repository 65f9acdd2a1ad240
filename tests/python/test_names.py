"""The names programs use: torch.npu's and those PyTorch generates for a back end."""

from __future__ import annotations

import csv
import importlib
import pickle
import re
import sys
from pathlib import Path

import pytest
import torch
from torch_npu._operator_docs import MISSING

import torch_npu
from tests import forked
from tests.older import OLDER, since_2_13
from tests.python import names_table
from torch_npu._data_types import DATA_TYPES

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "codegen"))
import tables  # noqa: E402

OLD_TYPES = [f"{kind}Tensor" for kind in "BFloat16 Bool Byte Char Double Float Half Int Long Short".split()]


def _resolve(name: str):
    value = {"torch": torch, "torch_npu": torch_npu}[name.split(".")[0]]
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def test_every_first_tier_name_of_torch_npu_exists(facts):
    with (facts / "torch_npu" / "api.tsv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["tier"] == "1"]
    names = [row["name"] for row in rows if row["name"].startswith("torch.npu.") and " " not in row["name"]]
    assert len(names) > 100
    missing = []
    for name in names:
        try:
            _resolve(name)
        except AttributeError:
            missing.append(name)
    assert missing == []


def test_data_types_are_256_and_canns_numbers():
    numbers = tables.load(ROOT / "cann" / "abi" / "enums.yaml")["aclDataType"]
    others = {"float32": "FLOAT", "float64": "DOUBLE", "bfloat16": "BF16"}
    names = {n: others.get(n, n.removesuffix("_x2").removesuffix("fnu").removesuffix("fn").upper()) for n in DATA_TYPES}
    assert {n: getattr(torch_npu, n) for n in names} == {
        n: 256 + int(known(numbers, cann)) for n, cann in names.items()
    }
    assert torch_npu.float4_e2m1fn_x2 == 296 and set(DATA_TYPES) <= set(dir(torch_npu))


def known(numbers: dict[str, str], name: str) -> str:
    """The number of ACL_FLOAT8_E4M3FN or ACL_FLOAT8_E8M0, by the beginning of its name."""
    (found,) = {value for key, value in numbers.items() if key in (f"ACL_{name}", f"ACL_{name}FN", f"ACL_{name}FNU")}
    return found


def test_the_quantized_types_are_named_as_unsupported():
    wanted = {torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8}
    assert set(torch_npu.unsupported_dtype) == wanted and len(torch_npu.unsupported_dtype) == 5


def test_operators_of_both_tiers_are_there_or_say_why(facts):
    with (facts / "torch_npu" / "api.tsv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["tier"] in ("1", "2")]
    names = {row["name"].split(".")[1] for row in rows if row["kind"] == "custom op" and "*" not in row["name"]}
    assert len(names) > 40 and "empty_with_format" in names
    assert {name for name in names if not hasattr(torch_npu, name) and name not in MISSING} == set()


def test_names_of_both_tiers_are_there_or_refused_and_a_test_calls_each(facts):
    rows = names_table.rows(facts)
    assert len(rows) > 330
    later = ["torch_npu.profiler.ProfilerActivity.NPU"] if OLDER else []  # 2.10 does not rename it
    assert [row.name for row in rows if names_table.state(row.name) == "absent"] == later
    assert [row.name for row in rows if not names_table.tested(row.name)] == []
    assert [path for path in names_table.WAYS.values() if not (ROOT / path).exists()] == []


@since_2_13("a name of PyTorch's on that page")
def test_the_page_of_names_has_each_and_its_state(facts):
    page = (ROOT / "docs" / "api_names.md").read_text("utf-8")
    found = re.findall(r"^\| `(.+?)` \| (.*?) ?\| \S+ \|$", page, re.M)
    states = {row.name: names_table.state(row.name) for row in names_table.rows(facts)}
    assert dict(found) == {name: "" if s == "there" else s for name, s in states.items()}, "write it anew"


@pytest.mark.parametrize("name", sorted(torch_npu.npu._refused.names))
def test_a_name_without_meaning_says_why(name):
    with pytest.raises(NotImplementedError, match=f"torch.npu.{name} is not implemented: .+"):
        getattr(torch.npu, name)(1, a=2)


@pytest.mark.parametrize("name", sorted(torch_npu.npu._refused.names))
def test_a_name_without_meaning_is_one_object_and_listed(name):
    value = getattr(torch.npu, name)
    assert value is getattr(torch.npu, name) and pickle.loads(pickle.dumps(value)) is value
    assert f"{value.__module__}.{value.__qualname__}" == f"torch_npu.npu.{name}"
    assert name in dir(torch.npu) and name in torch.npu.__all__


def test_methods_without_meaning_are_found_by_their_names():
    method = torch.npu.NPUGraph.super_kernel_optimize
    assert pickle.loads(pickle.dumps(method)) is method and "Raises NotImplementedError" in method.__doc__


def test_methods_without_meaning_say_why():
    graph = torch.npu.NPUGraph()
    with pytest.raises(NotImplementedError, match="torch.npu.NPUGraph.super_kernel_optimize is not implemented: .+"):
        graph.super_kernel_optimize()
    from torch_npu.distributed.rpc.options import NPUTensorPipeRpcBackendOptions

    with pytest.raises(NotImplementedError, match="RpcBackendOptions is not implemented: .* carries no npu tensors"):
        NPUTensorPipeRpcBackendOptions(num_worker_threads=2)


def test_parts_of_torch_distributed_by_the_vendors_names():
    assert torch_npu.distributed.fsdp.fully_shard is torch.distributed.fsdp.fully_shard
    assert torch_npu.distributed.pipelining.pipeline is torch.distributed.pipelining.pipeline
    experimental = importlib.import_module("torch_npu.distributed.tensor.experimental")
    assert experimental.context_parallel is torch.distributed.tensor.experimental.context_parallel


def test_parts_of_torch_distributed_are_listed_before_their_import():
    program = "import torch_npu.distributed as d; names = dir(d); print({*d._OF_PYTORCH, *d.__all__} - {*names})"
    done = forked.run(["-c", program])
    assert done.stdout == "set()\n" and done.returncode == 0, done.stderr


def test_the_stream_of_captures_can_be_chosen():
    before, mine = torch.npu.graph.default_capture_stream, torch.npu.Stream()
    torch.npu.graph.default_capture_stream = mine
    try:
        with torch.npu.graph(torch.npu.NPUGraph()):
            assert torch.npu.current_stream() == mine
    finally:
        torch.npu.graph.default_capture_stream = before


def test_memory_without_errors():
    assert torch.npu.check_uce_in_memory(0) == 0
    with pytest.raises(RuntimeError, match="invalid device index 99"):
        torch.npu.check_uce_in_memory(99)


@pytest.mark.parametrize("index", [-1, -5])
def test_a_negative_index_is_the_current_device(index):
    assert torch.npu.check_uce_in_memory(index) == 0
    with torch.npu.device(1):
        torch.npu.set_device(index)
        assert torch.npu.current_device() == torch.npu.current_stream(index).device.index == 1


def test_the_version_of_cann_is_that_of_its_root():
    root, soft = torch_npu._C._cann_root()
    root = Path(root) / "softnpu" if soft else Path(root)
    assert f"version={torch.version.cann}\n" in (root / "ascend_toolkit_install.info").read_text()
    with pytest.raises(AttributeError, match="torch.version"):
        torch.version.nonsense  # noqa: B018


def test_out_of_memory_is_pytorchs_error():
    assert torch.npu.OutOfMemoryError is torch.OutOfMemoryError


def test_a_stream_without_a_queue_before_it_is_a_stream():
    stream = torch.npu.SyncLaunchStream()
    assert isinstance(stream, torch.npu.Stream) and stream.device.type == "npu"
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() == stream


def test_switches_whose_state_cannot_change_say_so():
    assert torch.npu.get_mm_bmm_format_nd() and torch.npu.are_compatible_impl_enabled()
    assert torch.npu.get_task_queue_enable() == 0
    torch.npu.set_mm_bmm_format_nd(True)
    torch.npu.use_compatible_impl(True)
    torch.npu.set_task_queue_enable(0)
    with pytest.raises(ValueError, match="always ND"):
        torch.npu.set_mm_bmm_format_nd(False)
    with pytest.warns(UserWarning, match="no effect"):
        torch.npu.use_compatible_impl(False)
    with pytest.warns(UserWarning, match="no effect"):
        torch.npu.set_task_queue_enable(2)
    with pytest.raises(ValueError, match="mode is 3"):
        torch.npu.set_task_queue_enable(3)


def test_the_way_of_matrix_products_is_allow_hf32_by_another_name():
    matmul, ways = torch.npu.matmul, torch.npu.CubeMathType
    assert (matmul.cube_math_type, ways.USE_HF32.value) == (ways.KEEP_DTYPE, 3)
    try:
        matmul.cube_math_type = ways.USE_HF32
        assert matmul.allow_hf32 and matmul.cube_math_type is ways.USE_HF32
        with pytest.raises(NotImplementedError, match="USE_FP16 is not implemented"):
            matmul.cube_math_type = ways.USE_FP16
        with pytest.raises(TypeError, match="CubeMathType, not 3"):
            matmul.cube_math_type = 3
        assert matmul.allow_hf32
    finally:
        matmul.cube_math_type = ways.KEEP_DTYPE
    assert not matmul.allow_hf32


def test_nobody_counts_the_holders_of_a_pool():
    pool = torch.npu.MemPool()
    assert len(pool.id) == 2
    with pytest.raises(NotImplementedError, match="MemPool.use_count"):
        pool.use_count()


def test_a_part_of_a_model_is_deterministic_forwards_and_backwards():
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(torch.are_deterministic_algorithms_enabled())
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            seen.append(torch.are_deterministic_algorithms_enabled())
            return gradient * 2

    x = torch.ones(3, device="npu", requires_grad=True)
    y = Look.apply(torch.npu.enable_deterministic_with_backward(Look.apply(x)))
    y = Look.apply(torch.npu.disable_deterministic_with_backward(y))
    y.sum().backward()
    assert seen == [False, True, False, False, True, False]
    assert x.grad.tolist() == [8.0] * 3 and not torch.are_deterministic_algorithms_enabled()


def test_levels_of_determinism():
    try:
        torch.npu.set_deterministic_level(1)
        assert torch.are_deterministic_algorithms_enabled()
        for level in (2, 3):
            with pytest.raises(NotImplementedError, match=f"level {level}"):
                torch.npu.set_deterministic_level(level)
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.npu.set_deterministic_level(0)
    assert not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(ValueError, match="level is 'x'"):
        torch.npu.set_deterministic_level("x")


def test_generated_methods():
    tensor = torch.ones(3)
    assert tensor.npu().is_npu and not tensor.is_npu
    assert tensor.npu(1).device == tensor.npu("npu:1").device == tensor.npu(torch.device("npu:1")).device
    assert torch.nn.Linear(2, 2).npu(1).weight.device == torch.device("npu:1")
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    assert packed.npu().is_npu


@pytest.mark.parametrize("name", OLD_TYPES)
def test_an_old_tensor_type_is_on_the_npu_and_nowhere_else(name):
    made = getattr(torch.npu, name)
    for tensor in (made(1), made(1, device=None), made([1], device=None), made(2, 3, device="npu:0")):
        assert tensor.device == torch.device("npu:0") and isinstance(tensor, made)
    assert made([1, 0], device=None).tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="expects device type: npu but device type: cpu"):
        made(1, device="cpu")


def test_torch_npu_is_the_device_module():
    assert torch.npu is torch_npu.npu
    assert torch.get_device_module("npu") is torch.npu
    assert torch._C._get_privateuse1_backend_name() == "npu"


@since_2_13("that they are renamed")
def test_the_names_of_the_enumerations():
    assert torch._C._autograd.DeviceType.NPU.name == "NPU"
    assert torch.profiler.ProfilerActivity.NPU.name == "NPU"


@pytest.mark.parametrize("switch", ["allow_internal_format"])
def test_switches_keep_their_value_and_refuse_errors(switch):
    before = getattr(torch.npu.config, switch)
    try:
        setattr(torch.npu.config, switch, not before)
        assert getattr(torch.npu.config, switch) is not before
        with pytest.raises(TypeError, match="bool"):
            setattr(torch.npu.config, switch, "yes")
        with pytest.raises(AttributeError, match="no attribute 'alow'"):
            torch.npu.config.alow = True
    finally:
        setattr(torch.npu.config, switch, before)


def test_sync_debug_mode_takes_names_and_numbers():
    torch.npu.set_sync_debug_mode("warn")
    assert torch.npu.get_sync_debug_mode() == 1
    torch.npu.set_sync_debug_mode(0)
    assert torch.npu.get_sync_debug_mode() == 0
    with pytest.raises(RuntimeError, match="debug_mode"):
        torch.npu.set_sync_debug_mode("loud")


def test_fallbacks_are_counted():
    assert isinstance(torch_npu.npu.fallback_counts(), dict)
