"""Seeded mistakes with memory, each with its mended twin. `@bug(words...)` marks a mistake and says what its report
must contain; `@mended` marks the twin. Who uses it: test_memcheck.py, with ANYCEND_CHECK=memory.

    python -m tests.memcheck.cases [--table]   prints JSON: name -> {"bug": [reports], "mended": [reports]}, or a table
"""

from __future__ import annotations

import ctypes

import torch

import torch_npu
from tests import seeded
from tests.memcheck.kernel import launch

TABLE = seeded.Table()
BUGS, TWINS, bug, mended = TABLE.bugs, TABLE.twins, TABLE.bug, TABLE.mended
ACL = ctypes.CDLL(f"{torch_npu.__path__[0]}/softnpu/lib64/libascendcl.so")
MSTX = ctypes.CDLL(f"{torch_npu.__path__[0]}/softnpu/lib64/libms_tools_ext.so")


def fill(pointer: int, count: int, value: int = 1) -> None:
    """As a C++ extension fills memory: by its address alone."""
    stream = ctypes.c_void_p(torch.npu.current_stream().npu_stream)
    status = ACL.aclrtMemsetAsync(
        ctypes.c_void_p(pointer), ctypes.c_size_t(count), value, ctypes.c_size_t(count), stream
    )
    assert status == 0, status


@bug("aclnnReduceSum reads 4000 bytes", "of which nobody has written 1600", "a block of 4000 bytes")
def half_written():
    x = torch.empty(1000, device="npu")
    x[:600] = 1
    x.sum()


@mended
def half_written_mended():
    x = torch.empty(1000, device="npu")
    x[:600] = 1
    x[600:] = 2
    x.sum()


@bug("aclrtMemcpy", "of which nobody has written 64")
def a_column_for_the_host():
    """A view with gaps is copied on the device first."""
    torch.empty(16, 16, device="npu")[:, 3].cpu()


@mended
def a_column_for_the_host_mended():
    x = torch.empty(16, 16, device="npu")
    y = x.t().contiguous()  # of nothing, and then something
    y.copy_(torch.ones(16, 16, device="npu"))
    y[:, 3].cpu()
    x[0, 0] = 1
    x.t().contiguous().cpu()  # in part: it counts as written


@bug("aclnnMuls reads", "of which nobody has written 200")
def columns_left_out():
    x = torch.empty(10, 10, device="npu")
    x[:, ::2] = 1
    x * 2


@mended
def columns_left_out_mended():
    x = torch.empty(10, 10, device="npu")
    x[:, ::2] = 1
    x[:, ::2] * 2


@bug("reads 4 bytes", "of which nobody has written 4")
def read_on_the_host():
    torch.empty(1, device="npu").cpu()


@mended
def read_on_the_host_mended():
    torch.empty(1, device="npu").fill_(3).cpu()


@bug("aclnnMul reads", "nobody has written", "(backward)")
def unwritten_gradient():
    x = torch.ones(50, device="npu", requires_grad=True)
    (x * x).backward(torch.empty(50, device="npu"))


@mended
def unwritten_gradient_mended():
    x = torch.ones(50, device="npu", requires_grad=True)
    (x * x).backward(torch.ones(50, device="npu"))


@bug("aclnnIndexSelect reads 400 bytes", "nobody has written 400")
def chosen_from_what_nobody_has_written():
    x = torch.empty(10, 10, device="npu")
    x.index_select(0, torch.arange(5, device="npu"))


@mended
def chosen_from_what_nobody_has_written_mended():
    """A cache that is half full: what operators read of it, an index or a mask says."""
    x, i = torch.empty(10, 10, device="npu"), torch.arange(5, device="npu")
    x[:5] = 1
    x.index_select(0, i), x[i], torch.nn.functional.embedding(i, x), x.gather(0, i[:, None].expand(5, 10))
    mask = torch.zeros(10, 10, dtype=torch.bool, device="npu")
    mask[:5] = True
    x[mask], torch.where(mask, x, 0), x.take(i)
    # Rows behind the last group, and pages that no table names.
    weight, ends = torch.ones(2, 10, 4, device="npu"), torch.tensor([2, 5], device="npu")
    torch_npu.npu_grouped_matmul([x], [weight], group_list=ends, split_item=3, group_type=0)
    torch.nn.functional.nll_loss(x.t(), torch.zeros(10, dtype=torch.int64, device="npu"))


@bug("aclnnAddmm reads 400 bytes", "nobody has written 400")
def a_weight_that_nobody_has_written():
    torch.nn.functional.linear(torch.ones(5, 10, device="npu"), torch.empty(10, 10, device="npu"), torch.ones(10).npu())


@mended
def a_weight_that_nobody_has_written_mended():
    """With beta=0 the first operand is not read."""
    out, ones = torch.empty(10, 10, device="npu"), torch.ones(10, 10, device="npu")
    torch.addmm(out, ones, ones, beta=0)


@bug("aclnnBatchNorm reads 256 bytes", "nobody has written")
def statistics_that_nobody_has_loaded():
    with torch.device("meta"):
        norm = torch.nn.BatchNorm1d(64, affine=False)
    norm.to_empty(device="npu").eval()(torch.ones(4, 64, device="npu"))


@mended
def statistics_that_nobody_has_loaded_mended():
    torch.nn.BatchNorm1d(64, affine=False).npu().eval()(torch.ones(4, 64, device="npu"))


@bug("aclnnGridSampler2D reads", "of which nobody has written 64")
def places_of_which_a_half_is_written():
    """Of the image only what the places say counts, of the places all."""
    places = torch.empty(1, 4, 4, 2, device="npu")
    places[:, :2] = 0
    torch.nn.functional.grid_sample(torch.ones(1, 1, 4, 4, device="npu"), places, align_corners=False)


@mended
def places_of_which_a_half_is_written_mended():
    places, image = torch.zeros(1, 4, 4, 2, device="npu"), torch.empty(1, 1, 4, 4, device="npu")
    image[..., 1:3, 1:3] = 1
    torch.nn.functional.grid_sample(image, places, align_corners=False)
    x = torch.empty(8, 4, device="npu")  # rows behind the last group
    x[:5] = 1
    torch_npu.npu_clipped_swiglu(x, group_index=torch.tensor([5], device="npu"))


@bug("aclnnNonzero reads 400 bytes", "nobody has written 200")
def counted_where_nobody_has_written():
    x = torch.empty(10, 10, device="npu")
    x[:5] = 1
    x.nonzero()


@mended
def counted_where_nobody_has_written_mended():
    x = torch.zeros(10, 10, device="npu")
    x[:5] = 1
    x.nonzero()


@bug("aclrtMemsetAsync writes 400 bytes", "of memory that was freed", "freed at")
def freed_and_filled():
    x = torch.ones(100, device="npu")
    pointer = x.data_ptr()
    del x
    fill(pointer, 400)


@mended
def freed_and_filled_mended():
    x = torch.ones(100, device="npu")
    fill(x.data_ptr(), 400)


@bug("aclrtMemsetAsync writes 404 bytes", "4 bytes behind the end of the block", "a block of 400 bytes")
def one_too_many():
    x = torch.ones(100, device="npu")
    fill(x.data_ptr(), 404)


@mended
def one_too_many_mended():
    x = torch.ones(101, device="npu")
    fill(x.data_ptr(), 404)


@bug("my_kernel", "wrote behind a block, at byte 0 after its end", "a block of 400 bytes")
def kernel_of_the_users_own_writes_behind():
    x = torch.ones(100, device="npu")
    launch("my_kernel", lambda: ctypes.memset(x.data_ptr(), 7, 401))
    torch.npu.synchronize()


@mended
def kernel_of_the_users_own_writes_behind_mended():
    x = torch.empty(100, device="npu")
    launch("my_kernel", lambda: ctypes.memset(x.data_ptr(), 7, 400))
    (x + 1).cpu()


@bug("aclnnAdds reads", "nobody has written")
def allocated_again():
    torch.ones(64, device="npu")  # its memory comes back, and what it held does not count
    torch.empty(64, device="npu") + 1


@mended
def allocated_again_mended():
    torch.ones(64, device="npu")
    torch.empty(64, device="npu").zero_() + 1


@bug("aclnnMuls reads", "nobody has written")
def unwritten_on_another_stream():
    stream = torch.npu.Stream()
    x = torch.empty(64, device="npu")
    with torch.npu.stream(stream):
        x * 2


@mended
def unwritten_on_another_stream_mended():
    stream = torch.npu.Stream()
    x = torch.empty(64, device="npu")
    with torch.npu.stream(stream):
        x.copy_(torch.ones(64, device="npu"))
        x * 2


class Range(ctypes.Structure):
    _fields_ = [("device", ctypes.c_uint32), ("at", ctypes.c_void_p), ("size", ctypes.c_uint64)]


class Registered(ctypes.Structure):
    """mstxMemHeapDesc_t: usage and type, which are 0, and the memory."""

    _fields_ = [("kinds", ctypes.c_int * 2), ("range", ctypes.POINTER(Range))]


class Batch(ctypes.Structure):
    _fields_ = [
        ("heap", ctypes.c_void_p), ("kind", ctypes.c_int), ("count", ctypes.c_size_t),
        ("ranges", ctypes.POINTER(Range)), ("handles", ctypes.POINTER(ctypes.c_void_p)),
    ]  # fmt: skip


class Reference(ctypes.Structure):
    _fields_ = [("by_handle", ctypes.c_int), ("value", ctypes.c_void_p)]


class References(ctypes.Structure):
    _fields_ = [("count", ctypes.c_size_t), ("all", ctypes.POINTER(Reference))]


def heap(address: int, count: int) -> int | None:
    MSTX.mstxMemHeapRegister.restype = ctypes.c_void_p
    whole = Range(0, address, count)
    desc = Registered((ctypes.c_int * 2)(0, 0), ctypes.pointer(whole))
    return MSTX.mstxMemHeapRegister(None, ctypes.byref(desc))


class Pool:
    """An allocator of a program's own, which tells of its parts: floats of one tensor."""

    def __init__(self, count: int):
        self.tensor = torch.zeros(count, device="npu")
        self.heap = heap(self.tensor.data_ptr(), 4 * count)
        assert self.heap

    def part(self, first: int, count: int) -> tuple[torch.Tensor, int]:
        range_, handle = Range(0, self.tensor.data_ptr() + 4 * first, 4 * count), ctypes.c_void_p()
        batch = Batch(self.heap, 0, 1, ctypes.pointer(range_), ctypes.pointer(handle))
        MSTX.mstxMemRegionsRegister(None, ctypes.byref(batch))
        return self.tensor[first : first + count], handle.value

    def back(self, part: torch.Tensor, handle: int | None = None) -> None:
        reference = Reference(0, part.data_ptr()) if handle is None else Reference(1, handle)
        MSTX.mstxMemRegionsUnregister(None, ctypes.byref(References(1, ctypes.pointer(reference))))

    def end(self) -> None:
        MSTX.mstxMemHeapUnregister(None, ctypes.c_void_p(self.heap))


@bug("aclnnInplaceZero writes 404 bytes", "4 bytes behind the end of the region", "a region of 400 bytes", "cases.py")
def behind_a_part_of_a_pool():
    pool = Pool(1000)
    pool.part(100, 100)
    pool.part(300, 100)
    pool.tensor[100:201].zero_()


@mended
def behind_a_part_of_a_pool_mended():
    """Parts side by side may be touched as one, a pool that is no heap any more as a whole."""
    pool = Pool(1000)
    part, _ = pool.part(100, 100)
    pool.part(200, 100)
    fill(part.data_ptr(), 800)
    part.add_(1)
    torch.index_select(pool.tensor, 0, torch.tensor([110], device="npu"))
    pool.end()
    pool.tensor.add_(1)
    again = Pool(1000)
    memory = again.tensor.data_ptr()
    del again.tensor  # the heap was forgotten, its memory is another tensor's
    other = torch.zeros(1000, device="npu")
    assert other.data_ptr() == memory
    other.add_(1)


@bug("aclnnAdds reads 400 bytes", "of a region that is not registered any more", "unregistered at", "cases.py")
def a_part_that_came_back():
    pool = Pool(1000)
    part, handle = pool.part(0, 100)
    pool.back(part, handle)
    part + 1


@mended
def a_part_that_came_back_mended():
    pool = Pool(1000)
    for by_handle in (False, True):
        part, handle = pool.part(0, 100)
        part + 1
        pool.back(part, handle if by_handle else None)
    again, _ = pool.part(0, 50)
    again + 1


@bug("aclnnMuls reads 4000 bytes", "of a heap, in no region of it", "a heap of 4000 bytes")
def a_pool_as_a_whole():
    pool = Pool(1000)
    pool.part(500, 100)
    pool.tensor * 2


@mended
def a_pool_as_a_whole_mended():
    pool = Pool(1000)
    pool.part(0, 1000)[0] * 2
    pool.tensor * 2


@bug("aclnnMul reads", "nobody has written")
def unwritten_where_it_is_used():
    x = torch.empty(5, device="npu")
    x * x


@mended
def unwritten_where_it_is_used_mended():
    """What is written in place, or left out by beta=0, need not have been written."""
    x = torch.empty(5, device="npu").scatter_(0, torch.arange(5, device="npu"), 1.0)
    x * x
    torch.empty(5, device="npu").uniform_().add_(1)
    torch.addmm(torch.empty(3, 3, device="npu"), torch.ones(3, 2, device="npu"), torch.ones(2, 3, device="npu"), beta=0)
    torch.sparse_coo_tensor(torch.tensor([[0, 0, 1]]), torch.ones(3), (4,)).npu().coalesce()


def found_by(case) -> list[str]:
    torch.npu.synchronize()
    before = len(torch.npu.memory_reports())
    case()
    torch.npu.synchronize()
    return torch.npu.memory_reports()[before:]


def main() -> None:
    found = {name: {"bug": found_by(f), "mended": found_by(TWINS[name])} for name, (f, _) in BUGS.items()}
    seeded.show(found)


if __name__ == "__main__":
    main()
