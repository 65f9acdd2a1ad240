"""Calls a package's aclnn functions on npu tensors by name, as C does. Whose torch_npu it is does not matter.

python -m tests.ascendc.packaged LIBRARY
"""

from __future__ import annotations

import ctypes as C
import os
import sys

import torch

import torch_npu  # noqa: F401

TYPES = {torch.float32: 0, torch.float16: 1, torch.int32: 3, torch.int64: 9}


class Functions:
    def __init__(self, library: str):
        self.library = C.CDLL(library)
        self.base = C.CDLL("libnnopbase.so")
        self.acl = C.CDLL("libascendcl.so")
        for name in ("aclCreateTensor", "aclCreateIntArray"):
            getattr(self.base, name).restype = C.c_void_p
        self.acl.aclGetRecentErrMsg.restype = C.c_char_p

    def tensor(self, t: torch.Tensor | None, form: int = 2):
        if t is None:
            return None
        sizes, strides = ((C.c_int64 * max(t.dim(), 1))(*values) for values in (t.shape, t.stride()))
        whole = (C.c_int64 * 1)(t.untyped_storage().nbytes() // t.element_size())
        base = C.c_void_p(t.untyped_storage().data_ptr())
        offset = C.c_int64(t.storage_offset())
        return C.c_void_p(
            self.base.aclCreateTensor(
                sizes, C.c_uint64(t.dim()), TYPES[t.dtype], strides, offset, form, whole, C.c_uint64(1), base
            )
        )

    def ints(self, values: list[int]):
        return C.c_void_p(self.base.aclCreateIntArray((C.c_int64 * len(values))(*values), C.c_uint64(len(values))))

    def __call__(self, name: str, *arguments) -> str:
        """Both functions; the message of one that fails, or nothing."""
        given = [self.tensor(a) if a is None or isinstance(a, torch.Tensor) else a for a in arguments]
        bytes_, executor = C.c_uint64(), C.c_void_p()
        if getattr(self.library, f"{name}GetWorkspaceSize")(*given, C.byref(bytes_), C.byref(executor)):
            return self.acl.aclGetRecentErrMsg().decode()
        workspace = torch.empty(bytes_.value, dtype=torch.uint8, device="npu")
        stream = C.c_void_p(torch.npu.current_stream().npu_stream)
        code = getattr(self.library, name)(C.c_void_p(workspace.data_ptr()), bytes_, executor, stream)
        torch.npu.synchronize()
        return self.acl.aclGetRecentErrMsg().decode() if code else ""


def scale_shift(call: Functions) -> None:
    for dtype in (torch.float32, torch.float16):
        for size in ((1,), (33,), (3, 1000), (70001,)):
            x, bias = (torch.randint(-64, 65, (2, *size)) / 8).to(dtype).npu()
            for twice in (False, True):
                for given, negate in ((bias, False), (None, True)):
                    y, count = torch.full_like(x, 7), torch.full((4,), 9, dtype=torch.int32, device="npu")
                    how = C.c_char_p(b"twice" if twice else b"once")
                    steps = call.ints([1, -3, 4] if negate else [2])
                    assert (
                        call("aclnnScaleShift", x, given, C.c_double(0.5), steps, C.c_bool(negate), how, y, count) == ""
                    )
                    wanted = x.cpu() * (0.25 if twice else 0.5)
                    wanted = -(wanted + 2) if negate else wanted + bias.cpu() + 2
                    assert torch.equal(y.cpu(), wanted.to(dtype)), (dtype, size, twice, negate)
                    assert int(count.sum()) == x.numel()
    # A view, and one as the result: by way of the workspace. Not on the default stream.
    x, out = torch.randn(40, 30, device="npu"), torch.zeros(30, 80, device="npu")
    torch.npu.synchronize()
    with torch.npu.stream(torch.npu.Stream()):
        how, count = C.c_char_p(b""), torch.zeros(4, dtype=torch.int32, device="npu")
        call("aclnnScaleShift", x.t(), x.t(), C.c_double(2), call.ints([]), C.c_bool(False), how, out[:, ::2], count)
    assert torch.equal(out[:, ::2], x.t() * 3) and not out[:, 1::2].any()


def rows_times(call: Functions) -> None:
    for m, n, k in ((16, 16, 16), (37, 53, 29), (130, 250, 300)):
        a, b = torch.randn(m, k).half().npu(), torch.randn(k, n).half().npu()
        c = torch.zeros(m, n, device="npu")
        assert call("aclnnRowsTimes", a, b, c) == ""
        torch.testing.assert_close(c.cpu(), a.cpu().float() @ b.cpu().float(), rtol=1e-4, atol=1e-3)


def grows(call: Functions) -> None:
    """In place: what the kernel does not touch stays, of a view too, and so does what lies between its elements."""
    for dtype in (torch.float32, torch.int32):
        whole = torch.arange(240, dtype=dtype).view(12, 20)
        for view in (
            lambda t: t,
            lambda t: t.t(),
            lambda t: t[1::2, 3:17:3],
            lambda t: t[2:3].expand(1, 20),
            lambda t: t.as_strided((3, 2), (2, 3), 5),
        ):
            x, wanted = whole.npu(), whole.clone()
            by = torch.full_like(view(wanted), 100)
            rows = view(wanted).clone().flatten()
            rows[: rows.numel() // 2] += 100
            view(wanted).copy_(rows.view(by.shape))
            assert call("aclnnGrows", view(x), by.npu()) == ""
            assert torch.equal(x.cpu(), wanted), (dtype, by.shape)
    x = torch.zeros(4, 1, device="npu")
    for shared in (x.expand(4, 5), x.as_strided((3, 2), (1, 1))):
        said = "aclnnGrows: x is written, and several of its elements are one place of the memory"
        assert said in call("aclnnGrows", shared, torch.ones(shared.shape, device="npu"))


def shrinks(call: Functions) -> None:
    """The other operator of the same kernel's file, with a function for each version."""
    number, told = C.c_int64(8), torch.full((2,), 9, dtype=torch.int32, device="npu")
    for dtype in (torch.float32, torch.int32):
        x, by = torch.zeros(2, 4, dtype=dtype, device="npu"), torch.ones(2, 4, dtype=dtype, device="npu")
        hint = torch.ones(1, dtype=torch.float32 if dtype is torch.float32 else torch.int64, device="npu")
        for name, more, said in (("", [], 3), ("V1", [hint], 3), ("V2", [hint, number], 8), ("V2", [None, number], 8)):
            assert call(f"aclnnShrinks{name}", x, by, *more, told.fill_(7)) == ""
            assert told.tolist() == [said, 9]  # ge::DT_INT64, which the kernel is compiled for
        assert call("aclnnShrinks", x, by, None) == ""
        assert x.flatten().tolist() == [-5] * 4 + [0] * 4


def nothing(call: Functions) -> None:
    """Outputs without elements: not launched, but for who asks for it; none of them begins as zeros."""
    none = torch.empty(0, 3, device="npu")
    assert call("aclnnGrows", none, none) == ""
    told = torch.ones(2, dtype=torch.int32, device="npu")
    assert call("aclnnShrinks", none, none, told) == "" and told.tolist() == [3, 9]
    x, ones = torch.zeros(4, device="npu"), torch.ones(4, device="npu")
    assert call("aclnnShrinks", x, ones, told[:0]) == "" and x.tolist() == [-1, -1, 0, 0]


def refusals(call: Functions) -> None:
    x = torch.ones(8, device="npu")
    more = (C.c_double(1), call.ints([1, 1, 1, 1]), C.c_bool(False), C.c_char_p(b""), x, x.int())
    assert "aclnnScaleShift: its tiling function returned" in call("aclnnScaleShift", x, None, *more)
    assert "aclnnScaleShift: the kernel is not defined for x of type DT_INT64" in call(
        "aclnnScaleShift", x.long(), None, *more
    )
    assert call("aclnnScaleShift", None, None, *more) == "aclnnScaleShift: x is wanted"


def asks(call: Functions) -> None:
    x, z = torch.ones(4, 4, device="npu"), torch.ones(4, dtype=torch.int32, device="npu")
    y, (nothing, info, values, blocks, bytes_) = z.clone(), (C.c_int64(what) for what in range(5))
    assert call("aclnnAsks", x, z, z, nothing, y) == "" and not y.any()
    for given, said in (
        ((x, z, z, info, y), "its tiling function reads compile info (GetCompileInfo)"),
        ((x, z, z, values, y), "its tiling function reads the values of z (TilingInputsDataDependency)"),
        ((x, z, z, blocks, y), "its tiling function set a block dim of 4294967295, and the most are 65535"),
        ((x, z, z, bytes_, y), "its tiling function asks for 18446744073709551615 bytes of workspace"),
        ((x.t(), z, z, nothing, y), "x is not contiguous, and the kernel asks for its memory as it lies"),
        ((call.tensor(x, 29), z, z, nothing, y), "x has the format FRACTAL_NZ, and kernels are given ND"),
        ((x.half(), z, z, nothing, y), "the kernel is not defined for x of type DT_FLOAT16"),  # that one would be NZ
        (
            (x, z, z, nothing, y.float()),
            "the kernel is not defined for x of type DT_FLOAT, z of type DT_INT32, w of type DT_INT32, "
            "y of type DT_FLOAT",
        ),
    ):
        assert f"aclnnAsks: {said}" in call("aclnnAsks", *given), said


if __name__ == "__main__":
    torch.manual_seed(0)
    # By a relative path, and then from another folder: the package stays where it is.
    os.chdir(os.path.dirname(sys.argv[1]))
    functions = Functions(os.path.join(".", os.path.basename(sys.argv[1])))
    os.chdir("/")
    for check in (scale_shift, rows_times, grows, shrinks, nothing, refusals, asks):
        check(functions)
    print("AS WANTED", torch_npu.__file__)
