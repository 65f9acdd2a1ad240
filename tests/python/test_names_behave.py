"""What the vendor's names do that no other test calls. names_table.py says which test calls each of all names."""

from __future__ import annotations

import gc
import importlib
import io
import pickle
import warnings

import pytest
import torch

import torch_npu
from tests.core.tools import output


@pytest.mark.parametrize(
    ("made", "dtype"),
    [
        (torch.npu.BFloat16Tensor, torch.bfloat16),
        (torch.npu.BoolTensor, torch.bool),
        (torch.npu.ByteTensor, torch.uint8),
        (torch.npu.CharTensor, torch.int8),
        (torch.npu.DoubleTensor, torch.float64),
        (torch.npu.FloatTensor, torch.float32),
        (torch.npu.HalfTensor, torch.float16),
        (torch.npu.IntTensor, torch.int32),
        (torch.npu.LongTensor, torch.int64),
        (torch.npu.ShortTensor, torch.int16),
    ],
)
def test_old_tensor_types(made, dtype):
    tensor = made([1, 0, 1])
    assert (tensor.dtype, tensor.device.type, tensor.tolist()) == (dtype, "npu", [1, 0, 1])
    assert isinstance(tensor, made) and not isinstance(tensor.cpu(), made)


@pytest.mark.parametrize("make", [torch.npu.Stream, torch.npu.SyncLaunchStream])
def test_a_stream_for_preparing_data_is_a_stream(make):
    stream = make()
    stream.set_data_preprocess_stream(True)  # elsewhere its work goes past a queue, which there is not here
    with torch.npu.StreamContext(stream):
        assert torch.npu.current_stream() == stream
        x = torch.ones(3, device="npu") * 2
    stream.set_data_preprocess_stream(is_data_preprocess_stream=False)
    assert torch.npu.current_stream() != stream
    torch.npu.current_stream().wait_stream(stream)
    assert x.tolist() == [2.0] * 3
    with torch.npu.StreamContext(None):
        assert torch.npu.current_stream() != stream


def test_mixed_precision_is_there_where_an_npu_is():
    program = """
    from torch_npu.npu.amp.common import amp_definitely_not_available
    import torch
    print(amp_definitely_not_available(), torch.npu.is_available())
    """
    assert output(program) == "False True"
    assert output(program, ANYCEND_DEVICES="1", ASCEND_RT_VISIBLE_DEVICES="", imports=True) == "True False"


def test_operators_are_never_compiled():
    assert torch.npu.is_jit_compile_false() is True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.npu.set_compile_mode(jit_compile=False)
    with pytest.warns(UserWarning, match="never compiled online here"):
        torch.npu.set_compile_mode(jit_compile=True)
    assert torch.npu.is_jit_compile_false() is True
    assert torch.npu.current_blas_handle() is None


def test_old_names_of_memory():
    assert torch.npu.memory_cached() == torch.npu.memory_reserved()
    gc.collect()  # what an earlier test left would be given back meanwhile
    before = torch.npu.memory_allocated()
    large = torch.empty(1 << 20, dtype=torch.uint8, device="npu")
    stats = torch.npu.memory_stats_as_nested_dict()
    assert stats["allocated_bytes"]["all"]["current"] == torch.npu.memory_allocated() == before + (1 << 20)
    assert stats["allocated_bytes"]["all"]["peak"] >= before + (1 << 20)
    del large
    torch.npu.empty_cache()
    torch.npu.reset_max_memory_allocated()
    assert torch.npu.max_memory_allocated() == before
    torch.npu.reset_max_memory_cached()
    assert torch.npu.max_memory_cached() == torch.npu.max_memory_reserved() == torch.npu.memory_reserved()


def test_host_memory_by_kind():
    pinned = torch.ones(1 << 16).pin_memory()
    nested, flat = torch.npu.host_memory_stats_as_nested_dict(), torch.npu.host_memory_stats()
    assert nested["allocated_bytes"]["current"] == flat["allocated_bytes.current"] >= pinned.nbytes
    program = "import torch; print(torch.npu.host_memory_stats_as_nested_dict(), torch.npu.is_initialized())"
    assert output(program) == "{} False"


def test_ways_of_products_by_canns_numbers():
    ways = torch.npu.CubeMathType
    numbers = [ways.ALLOW_FP32_DOWN_PRECISION, ways.FORCE_GRP_ACC_FOR_FP32, ways.USE_FP32_ADD]
    assert [way.value for way in numbers] == [1, 4, 5]
    for way in numbers:
        with pytest.raises(NotImplementedError, match=f"{way.name} is not implemented"):
            torch.npu.matmul.cube_math_type = way
    assert torch.npu.matmul.cube_math_type is ways.KEEP_DTYPE and torch_npu.npu.npu_config._CubeMathType is ways


def test_aclnn_is_another_name_of_the_convolutions_switch():
    before = torch.npu.aclnn.allow_hf32
    try:
        torch.npu.aclnn.allow_hf32 = not before
        assert torch.npu.conv.allow_hf32 is (not before)
        with pytest.raises(TypeError, match="conv.allow_hf32 is a bool"):
            torch.npu.aclnn.allow_hf32 = 1
        with pytest.raises(AttributeError, match="no attribute 'alow_hf32'"):
            torch.npu.aclnn.alow_hf32 = True
    finally:
        torch.npu.conv.allow_hf32 = before
    assert torch.npu.aclnn.allow_hf32 is before and "allow_hf32" in dir(torch.npu.aclnn)
    with pytest.warns(UserWarning, match="torch.version.cann is CANN's"):
        assert torch.npu.aclnn.version() is None
    assert importlib.import_module("torch_npu.npu.aclnn.backends").version is torch.npu.aclnn.version


def test_what_is_refused_says_what_to_use():
    with pytest.raises(NotImplementedError, match="make streams and memory"):
        torch.npu.npurt()


def test_the_back_end_of_collectives_is_there():
    from torch_npu.distributed import distributed_c10d

    assert torch_npu.distributed.is_hccl_available() and distributed_c10d.is_hccl_available()
    assert torch.distributed.is_backend_available("hccl")


def test_rpc_carries_no_tensors_of_an_npu():
    from torch_npu.distributed.rpc.options import NPUTensorPipeRpcBackendOptions as Options

    for name, call in (
        ("set_device_map", lambda: Options.set_device_map(None, "worker", {0: 1})),
        ("set_devices", lambda: Options.set_devices(None, [0])),
    ):
        with pytest.raises(NotImplementedError, match=f"{name} is not implemented: .* send copies on the CPU"):
            call()


def test_counters_of_cores_are_named_and_left_out():
    metrics = torch_npu.profiler.AiCMetrics
    asked = [
        metrics.ArithmeticUtilization,
        metrics.MemoryAccess,
        metrics.MemoryL0,
        metrics.MemoryUB,
        metrics.ResourceConflictRatio,
    ]
    for metric in asked:
        with pytest.warns(UserWarning, match=f"aic_metrics={metric} is left out"):
            config = torch_npu.profiler._ExperimentalConfig(aic_metrics=metric)
        assert config._aic_metrics == metrics.AiCoreNone
    assert len(set(asked)) == 5 and torch_npu.profiler.supported_ai_core_metrics() == {metrics.AiCoreNone}


def test_figures_of_the_host_are_recorded_or_left_out():
    host = torch_npu.profiler.HostSystem
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch_npu.profiler._ExperimentalConfig(host_sys=[host.MEM]).host_sys == ["mem"]
    for left_out in (host.DISK, host.NETWORK, host.NUMA, host.OSRT):
        with pytest.warns(UserWarning, match=f"host_sys={left_out} is left out"):
            assert torch_npu.profiler._ExperimentalConfig(host_sys=[left_out]).host_sys == []


def test_ranges_of_a_program_are_wanted_or_not():
    assert torch_npu.profiler._ExperimentalConfig(mstx=True).tx_enabled
    assert torch_npu.profiler._ExperimentalConfig(msprof_tx=True).tx_enabled
    assert not torch_npu.profiler._ExperimentalConfig().tx_enabled


def test_steps_of_a_schedule_are_pytorchs():
    action = torch_npu.profiler.ProfilerAction
    plan = torch_npu.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    wanted = [action.NONE, action.WARMUP, action.RECORD, action.RECORD_AND_SAVE, action.NONE]
    assert [plan(step) for step in range(5)] == wanted


class _Old:
    """As a file of an extension before 2.1 has a tensor: a storage of the CPU, and the function that makes an npu's."""

    def __init__(self, tensor: torch.Tensor, kind: bool | int) -> None:
        self.tensor, self.kind = tensor, kind

    def __reduce__(self):
        from collections import OrderedDict

        t = self.tensor
        rest = (t.storage_offset(), t.size(), t.stride(), t.requires_grad, OrderedDict(), self.kind)
        return torch_npu.utils.storage._rebuild_npu_tensor, (t._typed_storage(), *rest)


@pytest.mark.parametrize("kind", [True, int(torch_npu.Format.ND)])
@pytest.mark.parametrize(("location", "device"), [(None, "npu:0"), ("cpu", "cpu"), ("npu:1", "npu:1")])
def test_files_of_old_extensions_are_read(kind, location, device):
    file = io.BytesIO()
    torch.save({"weight": _Old(torch.arange(6.0).reshape(2, 3).t().requires_grad_(), kind)}, file)
    file.seek(0)
    with pytest.warns(UserWarning, match="saved by an extension before 2.1"):
        found = torch.load(file, map_location=location, weights_only=False)["weight"]
    assert (str(found.device), found.tolist(), found.requires_grad) == (device, [[0, 3], [1, 4], [2, 5]], True)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="_rebuild_npu_tensor"):
        torch.load(file)
    with torch.serialization.safe_globals([torch_npu.utils.storage._rebuild_npu_tensor]):
        file.seek(0)
        with pytest.warns(UserWarning, match="saved by an extension before 2.1"):
            assert torch.load(file, map_location="cpu")["weight"].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_stream_that_launches_at_once_is_waited_for_as_any():
    stream, other = torch.npu.SyncLaunchStream(), torch.npu.SyncLaunchStream()
    with torch.npu.stream(stream):
        x = torch.ones(3, device="npu") * 2
    event = stream.record_event()
    other.wait_event(event)
    with torch.npu.stream(other):
        y = x + 1
    other.synchronize()
    assert other.query() and event.query() and y.tolist() == [3.0] * 3


def test_overflow_is_looked_for_in_values():
    """The flag of the chip is not here: infinities are kept, and scalers look at them."""
    for function in (torch.npu.get_npu_overflow_flag, torch.npu.clear_npu_overflow_flag):
        with pytest.raises(RuntimeError, match="there is no overflow flag, because this device keeps infinities"):
            function()


def test_typed_storages_and_packed_sequences_know_where_they_are():
    x = torch.ones(2, device="npu")
    for tensor, there in ((x, True), (x.cpu(), False)):
        storage = torch.TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True)
        assert storage.is_npu is there
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    assert isinstance(packed, torch.nn.utils.rnn.PackedSequence) and not packed.is_npu
    moved = packed.npu()
    assert moved.is_npu and moved.data.device.type == "npu" and moved.data.tolist() == packed.data.tolist()


@pytest.mark.parametrize(
    ("optimizer", "short"),
    [
        (torch_npu.optim.npu_fused_adadelta.NpuFusedAdadelta, torch_npu.optim.NpuFusedAdadelta),
        (torch_npu.optim.npu_fused_adamp.NpuFusedAdamP, torch_npu.optim.NpuFusedAdamP),
        (torch_npu.optim.npu_fused_lamb.NpuFusedLamb, torch_npu.optim.NpuFusedLamb),
        (torch_npu.optim.npu_fused_rmsprop_tf.NpuFusedRMSpropTF, torch_npu.optim.NpuFusedRMSpropTF),
    ],
)
def test_fused_optimizers_by_their_modules(optimizer, short):
    """As the base of all has it: a step goes down, gradients lie in one tensor and are cut as one."""
    assert optimizer is short and issubclass(optimizer, torch_npu.optim.npu_fused_optim_base.NpuFusedOptimizerBase)
    parameter = torch.nn.Parameter(torch.full((4,), 2.0, device="npu"))
    made = optimizer([parameter], lr=0.1)
    parameter.pow(2).sum().backward()
    assert made.clip_grad_norm_fused_(1.0).item() == pytest.approx(8)
    made.step()
    assert (parameter < 2).all()
    (combined,) = [t for t in made.get_combined_params() if t is not None]
    assert torch.equal(combined, parameter)
    assert made.get_combined_grads()[0].norm().item() == pytest.approx(1, abs=1e-4)
    made.zero_grad()
    assert parameter.grad is None or not parameter.grad.any()
