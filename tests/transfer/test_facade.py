"""torch.cuda on the npu: the stock functions, streams and events, memory figures, seeds."""

from __future__ import annotations

import pytest
import torch

from tests.core import tools
from tests.older import since_2_13


def test_availability_and_count() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == torch.npu.device_count() >= 2


def test_functions_bound_before_the_import_work() -> None:
    script = (
        "from torch.cuda import current_device, device_count, is_available, synchronize, manual_seed_all\n"
        "import torch\n"
        "assert not is_available() and device_count() == 0\n"
        "manual_seed_all(1)\n"
        "from torch_npu.contrib import transfer_to_npu\n"
        "assert is_available() and device_count() == torch.npu.device_count(), device_count()\n"
        "assert current_device() == 0\n"
        "synchronize()\n"
    )
    tools.run(script)


@pytest.mark.parametrize("device", [1, "cuda:1", torch.device("cuda", 1), torch.device("npu", 1), "npu:1"], ids=str)
def test_devices_in_every_form(device) -> None:
    with torch.cuda.device(device):
        assert torch.cuda.current_device() == torch.npu.current_device() == 1
        assert torch.zeros(1, device="cuda").device.index == 1
    assert torch.cuda.current_device() == 0
    torch.cuda.set_device(device)
    assert torch.npu.current_device() == 1
    torch.cuda.synchronize(device)
    torch.npu.synchronize(device)
    assert torch.cuda.get_device_name(device) == torch.npu.get_device_name(1)
    assert torch.cuda.get_device_properties(device).total_memory == torch.npu.get_device_properties(1).total_memory


def test_device_of_a_tensor() -> None:
    with torch.cuda.device_of(torch.zeros(1, device="cuda:1")):
        assert torch.npu.current_device() == 1
    with torch.cuda.device_of(torch.zeros(1)):
        assert torch.npu.current_device() == 0


def test_properties_a_script_asks_for() -> None:
    properties = torch.cuda.get_device_properties(0)
    assert properties.name == torch.npu.get_device_name(0)
    assert properties.multi_processor_count >= 1
    assert torch.cuda.get_device_capability() == (properties.major, properties.minor) == (8, 0)
    assert torch.cuda.is_bf16_supported()


def test_memory_figures() -> None:
    before = torch.cuda.memory_allocated()
    tensor = torch.zeros(1 << 20, device="cuda")
    assert torch.cuda.memory_allocated() - before == torch.npu.memory_allocated() - before >= 4 << 20
    assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == torch.cuda.memory_allocated()
    del tensor
    assert torch.cuda.memory_allocated() == before
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == before
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    assert isinstance(torch.cuda.memory_summary(), str)


def test_streams_and_events() -> None:
    stream = torch.cuda.Stream()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    assert isinstance(torch.cuda.current_stream(), torch.cuda.Stream)
    start.record()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == torch.npu.current_stream() == stream
        result = torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")
        end.record()
    torch.cuda.current_stream().wait_stream(stream)
    end.synchronize()
    torch.cuda.synchronize()
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert start.elapsed_time(end) >= 0
    assert end.query() and stream.query()
    assert stream.cuda_stream == stream.npu_stream
    assert result.sum().item() == 64**3


def test_a_stream_of_another_device() -> None:
    stream = torch.cuda.Stream(device="cuda:1")
    assert stream.device == torch.device("npu", 1)
    with torch.cuda.stream(stream):
        assert torch.cuda.current_device() == 1
    assert torch.cuda.current_device() == 0


def test_generic_streams_and_events_of_cuda_are_the_npus() -> None:
    assert torch.Stream("cuda:1").device == torch.device("npu", 1)
    assert torch.Event("cuda").device.type == "npu"


def sample() -> torch.Tensor:
    return torch.rand(4, device="cuda").cpu()


SEEDS = {"torch": torch.manual_seed, "cuda": torch.cuda.manual_seed, "cuda-all": torch.cuda.manual_seed_all}


@pytest.mark.parametrize("seed", [*SEEDS.values(), torch.npu.manual_seed], ids=[*SEEDS, "npu"])
def test_seeds_reach_the_npu(seed) -> None:
    seed(5)
    first = sample()
    assert not torch.equal(first, sample())
    seed(5)
    assert torch.equal(first, sample())
    assert torch.cuda.initial_seed() == 5


def test_a_seed_is_not_replayed_later() -> None:
    torch.cuda.manual_seed_all(5)
    first = sample()
    torch.cuda.synchronize()
    torch.cuda.current_device()
    assert not torch.equal(first, sample())


def test_generator_state() -> None:
    state = torch.cuda.get_rng_state()
    first = sample()
    torch.cuda.set_rng_state(state)
    assert torch.equal(first, sample())
    assert len(torch.cuda.get_rng_state_all()) == torch.cuda.device_count()
    with torch.random.fork_rng(devices=[0]):
        sample()
    torch.cuda.set_rng_state(state)
    with torch.random.fork_rng(devices=[0]):
        sample()
    assert torch.equal(first, sample())


def test_generators() -> None:
    for generator in (torch.Generator("cuda:1"), torch.Generator(device=torch.device("cuda", 1))):
        assert isinstance(generator, torch.Generator)
        assert generator.device == torch.device("npu", 1)
    assert torch.Generator().device == torch.Generator("cpu").device == torch.device("cpu")
    values = [torch.rand(3, device="cuda", generator=torch.Generator("cuda").manual_seed(7)).cpu() for _ in range(2)]
    assert torch.equal(*values)


def test_nvtx_ranges_nest() -> None:
    assert torch.cuda.nvtx.range_push("a") == 0
    assert torch.cuda.nvtx.range_push("b") == 1
    assert torch.cuda.nvtx.range_pop() == 1
    assert torch.cuda.nvtx.range_pop() == 0
    with torch.cuda.nvtx.range("c"):
        torch.cuda.nvtx.mark("d")


def test_nvtx_and_emit_nvtx_are_ranges_of_the_npus_trace() -> None:
    from tests.profiler import mspti

    a = torch.ones(2, 4, device="cuda")
    with mspti.Subscriber(mspti.MARKER) as recorded:
        with torch.cuda.nvtx.range("mine"):
            torch.cuda.nvtx.mark("point")
        with torch.no_grad(), torch.autograd.profiler.emit_nvtx(record_shapes=True):
            a + 1
    names = [r.name.decode() for r in recorded.records if r.source == 0 and r.name]
    assert names == ["mine", "point", "aten::add, sizes = [[2, 4], [], []]"]


def test_cudart() -> None:
    cudart = torch.cuda.cudart()
    success = cudart.cudaError.success
    assert (cudart.cudaProfilerStart(), cudart.cudaProfilerStop(), success) == (0, 0, 0)
    assert cudart.cudaGetErrorString(success) == "no error"
    with pytest.raises(torch.cuda.CudaError, match=r"^error 101 \(101\)$"):
        torch.cuda.check_error(101)
    free, total = cudart.cudaMemGetInfo(0)
    assert 0 < free <= total == torch.npu.mem_get_info(0)[1]


def test_the_accelerator_is_still_the_npu() -> None:
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    torch.accelerator.set_device_index(1)
    assert torch.cuda.current_device() == 1


def test_device_module() -> None:
    assert torch.get_device_module("cuda") is torch.cuda


def test_switches_of_gpu_scripts_are_accepted() -> None:
    script = (
        "import torch\n"
        "from torch_npu.contrib import transfer_to_npu\n"
        "cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul\n"
        "cudnn.benchmark = cudnn.deterministic = cudnn.allow_tf32 = matmul.allow_tf32 = True\n"
        "torch.set_float32_matmul_precision('high')\n"
        "with cudnn.flags(enabled=False), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):\n"
        "    assert (torch.ones(2, device='cuda') + 1).tolist() == [2, 2]\n"
        "assert cudnn.benchmark and matmul.allow_tf32\n"
    )
    tools.run(script)


@pytest.mark.parametrize("way", ["torch.profiler", "use_cuda", "use_device"])
def test_profilers_for_cuda_are_quiet(way: str, capfd: pytest.CaptureFixture) -> None:
    x = torch.randn(4, 4, device="cuda")
    if way == "torch.profiler":
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        context = torch.profiler.profile(activities=activities)
    else:
        option = {"use_cuda": True} if way == "use_cuda" else {"use_device": "cuda"}
        context = torch.autograd.profiler.profile(**option)
    with context as profile:
        x @ x
    assert "aten::mm" in {event.key for event in profile.key_averages()}
    assert "Failed to record" not in capfd.readouterr().err


def test_memory_figures_of_a_private_pool() -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        tensor = torch.zeros(1 << 20, device="cuda")
    name = f"reserved_bytes_by_private_pools.{pool.id[0]}_{pool.id[1]}.all.current"
    assert torch.cuda.memory_stats()[name] >= tensor.nbytes == 4 << 20


@since_2_13("the check of the caching allocator")
@pytest.mark.parametrize(("value", "cached"), [(None, True), ("0", True), ("1", False)])
def test_inductor_is_told_whether_memory_is_cached(monkeypatch: pytest.MonkeyPatch, value, cached: bool) -> None:
    """Without it there are no graphs (mode="reduce-overhead")."""
    from torch._inductor.cudagraph_utils import check_caching_allocator_for_cudagraphs

    monkeypatch.delenv("PYTORCH_NO_NPU_MEMORY_CACHING", raising=False)
    if value is not None:
        monkeypatch.setenv("PYTORCH_NO_NPU_MEMORY_CACHING", value)
    assert torch._C._cuda_cudaCachingAllocator_is_enabled() is cached
    reason = check_caching_allocator_for_cudagraphs()
    assert reason is None if cached else "requires the caching allocator" in reason


def test_graphs_and_memory_pools() -> None:
    x = torch.zeros(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    x.fill_(4)
    graph.replay()
    assert y.device.type == "npu" and y.tolist() == [8] * 4
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.ones(1000, device="cuda")
    assert [s["address"] for s in pool.snapshot()] == [inside.data_ptr()]
