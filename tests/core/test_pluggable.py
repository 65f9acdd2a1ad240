"""Device memory from a program's own library: torch.npu.NPUPluggableAllocator, for all memory or for a pool."""

from __future__ import annotations

import ctypes
import subprocess

import pytest
import torch

from tests.core.tools import LIBRARY, output

SOURCE = """
#include <sys/types.h>
#include <atomic>
extern "C" {
int aclrtMalloc(void**, size_t, int);
int aclrtFree(void*);
std::atomic<long> asked{0}, given_back{0}, bytes{0}, device{-1}, without_stream{0};
long limit = 1L << 40;
void* my_malloc(ssize_t size, int on, void* stream) {
  ++asked; device = on; if (!stream) ++without_stream;
  if (bytes + size > limit) return nullptr;
  void* memory = nullptr;
  if (aclrtMalloc(&memory, size, 0)) return nullptr;
  bytes += size;
  return memory;
}
void my_free(void* memory, ssize_t size, int, void*) { ++given_back; bytes -= size; aclrtFree(memory); }
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pluggable")
    (folder / "mine.cpp").write_text(SOURCE)
    command = ["g++", "-shared", "-fPIC", "mine.cpp", "-o", "mine.so", f"-L{LIBRARY.parent}", "-lascendcl"]
    subprocess.run([*command, f"-Wl,-rpath,{LIBRARY.parent}"], cwd=folder, check=True)
    return str(folder / "mine.so")


@pytest.fixture
def allocator(library):
    return torch.npu.NPUPluggableAllocator(library, "my_malloc", "my_free")


def figure(library: str, name: str) -> int:
    return ctypes.c_long.in_dll(ctypes.CDLL(library), name).value


def test_a_pools_segments_come_from_it_and_go_back(library, allocator):
    torch.zeros(1, device="npu:1")
    before = figure(library, "asked"), figure(library, "given_back")
    with torch.npu.device(1):
        pool = torch.npu.MemPool(allocator.allocator())
        with torch.npu.use_mem_pool(pool):
            inside = torch.arange(1 << 20, device="npu:1")
            assert inside.sum().item() == (1 << 19) * ((1 << 20) - 1)
        outside = torch.ones(5 << 20, device="npu:1")
        assert figure(library, "asked") > before[0] and figure(library, "device") == 1
        assert figure(library, "bytes") == sum(s["total_size"] for s in pool.snapshot())
        assert figure(library, "without_stream") == 0
        assert outside.sum().item() == 5 << 20
        del inside, pool
        torch.npu.empty_cache()
    assert figure(library, "bytes") == 0
    assert figure(library, "given_back") - before[1] == figure(library, "asked") - before[0]


def test_a_graph_in_the_pool_of_one_that_has_gone_gives_its_memory_back_there(library, allocator):
    before = figure(library, "asked"), figure(library, "given_back")
    pool = torch.npu.MemPool(allocator.allocator())
    with torch.npu.use_mem_pool(pool):
        kept = torch.ones(1 << 20, device="npu")
    number = pool.id
    del pool
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, pool=number):
        more = kept.repeat(8)
    graph.replay()
    assert more.sum().item() == 8 << 20
    del kept, more, graph
    torch.npu.empty_cache()
    assert figure(library, "bytes") == 0
    assert figure(library, "given_back") - before[1] == figure(library, "asked") - before[0]


def test_a_pool_that_has_no_more_says_so(library, allocator):
    ctypes.c_long.in_dll(ctypes.CDLL(library), "limit").value = 30 << 20
    try:
        pool = torch.npu.memory.MemPool(allocator._allocator)
        with torch.npu.memory.use_mem_pool(pool):
            kept = torch.ones(5 << 20, device="npu")
            with pytest.raises(torch.OutOfMemoryError):
                torch.ones(5 << 20, device="npu")
        assert kept.sum().item() == 5 << 20
    finally:
        ctypes.c_long.in_dll(ctypes.CDLL(library), "limit").value = 1 << 40


def test_expandable_segments_leave_such_a_pool_alone(library):
    program = f"""
        import ctypes, torch
        mine = torch.npu.NPUPluggableAllocator({library!r}, "my_malloc", "my_free")
        with torch.npu.use_mem_pool(torch.npu.MemPool(mine.allocator())):
            print(torch.ones(1 << 20, device="npu").sum().item() == 1 << 20)
        print(ctypes.c_long.in_dll(ctypes.CDLL({library!r}), "asked").value > 0)
    """
    assert output(program, fresh=True, PYTORCH_NPU_ALLOC_CONF="expandable_segments:True").split() == ["True", "True"]


def test_all_memory_comes_from_it_and_what_belongs_to_the_cache_is_refused(library):
    program = f"""
        import ctypes, gc, torch
        mine = torch.npu.memory.NPUPluggableAllocator({library!r}, "my_malloc", "my_free")
        torch.npu.memory.change_current_allocator(mine)
        net = torch.nn.Linear(8, 8).npu()
        with torch.npu.stream(torch.npu.Stream()) as s:
            loss = net(torch.ones(4, 8, device="npu")).square().sum()
        loss.backward()
        figure = lambda name: ctypes.c_long.in_dll(ctypes.CDLL({library!r}), name).value
        print(torch.isfinite(net.weight.grad).all().item(), figure("bytes") > 0, torch.npu.get_allocator_backend())
        for refused in ('memory_allocated()', 'MemPool()', 'set_per_process_memory_fraction(1.0)',
                        'graph(torch.npu.NPUGraph()).__enter__()',
                        'make_graphed_callables(torch.nn.ReLU().npu(), (torch.ones(2, device="npu"),))'):
            try:
                eval('torch.npu.' + refused)
            except NotImplementedError as error:
                said = str(error)
                print(all(one in said for one in ("change_current_allocator has replaced", "graphs (torch.npu.graph",
                                                  "MemPool(allocator=...)")))
        try:
            torch.npu.change_current_allocator(mine)
        except RuntimeError as error:
            print("comes once, and before the first tensor" in str(error))
        torch.npu.empty_cache()
        torch.npu.synchronize()
        del net, loss
        gc.collect()
        print(figure("bytes"), figure("asked") == figure("given_back"))
    """
    assert output(program, fresh=True).split() == ["True", "True", "pluggable", *["True"] * 6, "0", "True"]


def test_it_comes_too_late_behind_a_tensor(allocator):
    torch.zeros(1, device="npu")
    with pytest.raises(RuntimeError, match="change_current_allocator comes once, and before the first tensor"):
        torch.npu.change_current_allocator(allocator)


def test_what_is_wrong_is_named(library, allocator):
    with pytest.raises(AttributeError, match=r"mine.so has no function 'other': declare it extern \"C\""):
        torch.npu.NPUPluggableAllocator(library, "other", "my_free")
    with pytest.raises(OSError, match="nowhere.so"):
        torch.npu.NPUPluggableAllocator("/nowhere.so", "my_malloc", "my_free")
    with pytest.raises(TypeError, match="allocator is a torch.npu.NPUPluggableAllocator, not int"):
        torch.npu.change_current_allocator(3)
    with pytest.raises(TypeError, match=r"what NPUPluggableAllocator\(...\).allocator\(\) returns, not NPUPluggable"):
        torch.npu.MemPool(allocator)
