"""The table in cann/README.md: ownership, reuse, aliasing, errors, threads."""

from __future__ import annotations

import ctypes as C
import gc
import threading

import pytest
import torch

from tests.opapi.client import AclError, P


def add(npu, **changed):
    a = torch.ones(3, 4)
    return npu.call("aclnnAdd", **({"self": a, "other": a, "alpha": 1, "out": torch.empty(3, 4)} | changed))


@pytest.mark.parametrize("name", ["self", "other", "alpha", "out"])
def test_a_null_parameter_is_161001_and_named(npu, name):
    with pytest.raises(AclError, match=f"aclnnAdd: parameter {name} is null") as error:
        add(npu, **{name: None})
    assert error.value.status == 161001


def test_a_null_executor_pointer_is_161001(npu):
    t = npu.tensor(torch.ones(2))
    size = C.c_uint64()
    assert npu.opapi.aclnnAbsGetWorkspaceSize(P(t.value), P(t.value), C.byref(size), P(None)) == 161001


@pytest.mark.parametrize(
    "changed, text",
    [
        ({"other": torch.ones(5)}, r"shape \[3, 4\] does not broadcast with \[5\]"),
        ({"out": torch.empty(4, 3)}, r"shape \[4, 3\] of the output is not the operands' \[3, 4\]"),
    ],
)
def test_shapes_that_do_not_fit_are_161002(npu, changed, text):
    with pytest.raises(AclError, match=text) as error:
        add(npu, **changed)
    assert error.value.status == 161002


def test_a_destroyed_handle_is_refused(npu):
    t = npu.tensor(torch.ones(3, 4))
    stale = P(t.value)
    t.close()
    size, executor = C.c_uint64(), P()
    assert npu.opapi.aclnnAbsGetWorkspaceSize(stale, stale, C.byref(size), C.byref(executor)) == 161002
    assert "destroyed" in npu.message()
    assert npu.opapi.aclDestroyTensor(stale) == 161002


def test_a_handle_of_another_type_is_refused(npu):
    scalar = npu.scalar(1.0)
    size, executor = C.c_uint64(), P()
    assert (
        npu.opapi.aclnnAbsGetWorkspaceSize(P(scalar.value), P(scalar.value), C.byref(size), C.byref(executor)) == 161002
    )


def test_a_type_that_is_not_computed_is_161002(npu):
    t = npu.tensor(torch.ones(4))
    dims = (C.c_int64 * 1)(4)
    odd = npu.create_tensor(dims, 1, 38, None, 0, 2, dims, 1, t.memory.pointer)  # ACL_FLOAT6_E3M2
    size, executor = C.c_uint64(), P()
    assert npu.opapi.aclnnAbsGetWorkspaceSize(P(odd), P(t.value), C.byref(size), C.byref(executor)) == 161002
    assert "data type 38" in npu.message()
    npu.opapi.aclDestroyTensor(P(odd))


def test_handles_may_be_destroyed_between_the_phases(npu):
    a, b = torch.randn(5), torch.randn(5)
    out = npu.tensor(torch.empty(5))
    memory, cpu = out.memory, out.cpu
    inputs = [npu.tensor(a), npu.tensor(b)]
    alive = [t.memory for t in inputs]
    alpha = npu.scalar(1)
    executor, size = npu.prepare("aclnnAdd", self=inputs[0], other=inputs[1], alpha=alpha, out=out)
    for handle in (*inputs, alpha, out):
        handle.close()
    npu.launch("aclnnAdd", executor, size)
    npu.synchronize()
    memory.read()
    assert torch.equal(memory.tensor.as_strided(cpu.shape, cpu.stride()), a + b) and alive


def test_an_executor_is_spent_by_its_launch(npu):
    t = npu.tensor(torch.ones(3))
    executor, size = npu.prepare("aclnnAbs", self=t, out=t)
    npu.launch("aclnnAbs", executor, size)
    npu.synchronize()
    with pytest.raises(AclError, match="spent"):
        npu.launch("aclnnAbs", executor, size)
    assert npu.opapi.aclDestroyAclOpExecutor(executor) == 161002


def test_an_executor_of_another_operator_is_refused(npu):
    t = npu.tensor(torch.ones(3))
    executor, size = npu.prepare("aclnnAbs", self=t, out=t)
    with pytest.raises(AclError, match="another operator"):
        npu.launch("aclnnExp", executor, size)
    assert npu.opapi.aclDestroyAclOpExecutor(executor) == 0


def test_a_repeatable_executor_runs_many_times(npu):
    x = npu.tensor(torch.ones(3))
    executor, size = npu.prepare("aclnnInplaceAdds", selfRef=x, other=1.0, alpha=1)
    assert npu.opapi.aclSetAclOpExecutorRepeatable(executor) == 0
    for _ in range(5):
        npu.launch("aclnnInplaceAdds", executor, size)
    npu.synchronize()
    assert npu.opapi.aclDestroyAclOpExecutor(executor) == 0
    assert torch.equal(x.read(), torch.full((3,), 6.0))


def test_an_address_may_be_changed_between_launches(npu):
    x, y = npu.tensor(torch.ones(3)), npu.tensor(torch.zeros(3))
    executor, size = npu.prepare("aclnnInplaceAdds", selfRef=x, other=1.0, alpha=1)
    assert npu.opapi.aclSetAclOpExecutorRepeatable(executor) == 0
    npu.launch("aclnnInplaceAdds", executor, size)
    npu.synchronize()
    assert npu.opapi.aclSetTensorAddr(executor, C.c_size_t(0), P(y.value), y.memory.pointer) == 0
    npu.launch("aclnnInplaceAdds", executor, size)
    npu.synchronize()
    npu.opapi.aclDestroyAclOpExecutor(executor)
    assert torch.equal(x.read(), torch.full((3,), 2.0)) and torch.equal(y.read(), torch.ones(3))


def hold(npu, seconds: float) -> None:
    """Keeps the stream busy, so that what follows is queued."""
    sleep = C.cast(C.CDLL(None).usleep, P)
    assert npu.acl.aclrtLaunchHostFunc(npu.stream, sleep, P(int(seconds * 1e6))) == 0


def test_a_launch_has_the_addresses_of_its_call(npu):
    """What is changed between two launches is not seen by the first, though it has not run yet."""
    x, y = npu.tensor(torch.ones(3)), npu.tensor(torch.zeros(3))
    executor, size = npu.prepare("aclnnInplaceAdds", selfRef=x, other=1.0, alpha=1)
    assert npu.opapi.aclSetAclOpExecutorRepeatable(executor) == 0
    hold(npu, 0.2)
    npu.launch("aclnnInplaceAdds", executor, size)
    assert npu.opapi.aclSetTensorAddr(executor, C.c_size_t(0), P(y.value), y.memory.pointer) == 0
    npu.launch("aclnnInplaceAdds", executor, size)
    assert npu.opapi.aclDestroyAclOpExecutor(executor) == 0  # launches have their own copies
    npu.synchronize()
    assert torch.equal(x.read(), torch.full((3,), 2.0)) and torch.equal(y.read(), torch.ones(3))


def test_every_kind_of_argument_is_copied_for_a_launch(npu):
    """Lists, arrays, scalars and what does not fit into the executor's own room."""
    parts = [torch.full((2, 3), float(i)) for i in range(40)]
    out = npu.tensor(torch.empty(80, 3))
    executor, size = npu.prepare("aclnnCat", tensors=parts, dim=0, out=out)
    assert npu.opapi.aclSetAclOpExecutorRepeatable(executor) == 0
    alive = npu.alive, npu.lists
    hold(npu, 0.1)
    npu.launch("aclnnCat", executor, size)
    assert npu.opapi.aclDestroyAclOpExecutor(executor) == 0
    x, sums = torch.arange(24.0).view(2, 3, 4), npu.tensor(torch.empty(2, 4))
    executor, size = npu.prepare("aclnnReduceSum", self=x, dims=[1], keepDims=False, dtype=0, out=sums)
    assert npu.opapi.aclSetAclOpExecutorRepeatable(executor) == 0
    npu.launch("aclnnReduceSum", executor, size)
    assert npu.opapi.aclDestroyAclOpExecutor(executor) == 0
    npu.synchronize()
    assert alive and torch.equal(out.read(), torch.cat(parts)) and torch.equal(sums.read(), x.sum(1))


def test_an_offset_stays_when_the_address_changes(npu):
    base, other = torch.zeros(6), torch.zeros(6)
    x, y = npu.tensor(base[2:4]), npu.tensor(other)
    executor, size = npu.prepare("aclnnInplaceAdds", selfRef=x, other=1.0, alpha=1)
    assert npu.opapi.aclSetAclOpExecutorRepeatable(executor) == 0
    assert npu.opapi.aclSetTensorAddr(executor, C.c_size_t(0), P(x.value), y.memory.pointer) == 0
    npu.launch("aclnnInplaceAdds", executor, size)
    npu.synchronize()
    assert npu.opapi.aclDestroyAclOpExecutor(executor) == 0
    assert y.read().tolist() == [0, 0, 1, 1, 0, 0]


def test_addresses_that_cannot_be_changed_are_refused(npu):
    x = torch.randn(2, 4)
    out = npu.tensor(torch.empty(2, 4))
    executor, size = npu.prepare(
        "aclnnLayerNorm", input=x, normalizedShape=[4], weightOptional=None, biasOptional=None, eps=1e-5, out=out,
        meanOutOptional=None, rstdOutOptional=None,
    )  # fmt: skip
    assert npu.opapi.aclSetAclOpExecutorRepeatable(executor) == 0

    def change(index: int, tensor: int | None) -> int:
        return npu.opapi.aclSetTensorAddr(executor, C.c_size_t(index), P(tensor), out.memory.pointer)

    assert [change(1, out.value), change(2, out.value)] == [161002, 161002]  # null options have no address
    assert [change(99, out.value), change(0, None), change(0, 12345)] == [161002, 161001, 161002]
    assert npu.opapi.aclSetTensorAddr(P(None), C.c_size_t(0), P(out.value), out.memory.pointer) == 161001
    assert npu.opapi.aclDestroyAclOpExecutor(executor) == 0
    t = npu.tensor(torch.ones(3))
    spent, size = npu.prepare("aclnnAbs", self=t, out=t)
    npu.launch("aclnnAbs", spent, size)
    assert npu.opapi.aclSetTensorAddr(spent, C.c_size_t(0), P(t.value), t.memory.pointer) == 161002
    npu.synchronize()


def test_an_operator_that_takes_too_long_fails_when_it_ends(npu):
    from tests.opapi.client import Client

    other = Client()  # the failure stays on its stream
    big = torch.randn(64, 64)
    assert other.acl.aclrtSetOpExecuteTimeOutV2(C.c_uint64(1), None) == 0
    try:
        with pytest.raises(AclError, match="aclnnMatmul failed on device 0: it took .* and the limit is") as error:
            other.call("aclnnMatmul", self=big, mat2=big, out=torch.empty(64, 64), cubeMathType=0)
        assert error.value.status == 507014
    finally:
        assert other.acl.aclrtSetOpExecuteTimeOut(C.c_uint32(0)) == 0
    got = npu.call("aclnnMatmul", self=big, mat2=big, out=torch.empty(64, 64), cubeMathType=0)["out"]
    torch.testing.assert_close(got, big @ big)


def test_sums_at_one_place_are_the_same_each_time_if_asked(npu):
    self, index = torch.zeros(3), torch.randint(0, 3, (200_000,))
    values = torch.randn(200_000)
    assert npu.acl.aclrtSetSysParamOpt(0, C.c_int64(1)) == 0
    try:
        expected = self.clone().index_put_((index,), values, accumulate=True)
        call = {"indices": [index], "values": values, "accumulate": True, "unsafe": False}
        sums = [npu.call("aclnnIndexPutImpl", selfRef=self, **call)["selfRef"] for _ in range(5)]
    finally:
        assert npu.acl.aclrtSetSysParamOpt(0, C.c_int64(0)) == 0
    assert all(torch.equal(s, sums[0]) for s in sums)
    torch.testing.assert_close(sums[0], expected, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("op", ["aclnnAdd", "aclnnMatmul"])
def test_an_output_may_be_an_input(npu, op):
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    x = npu.tensor(a)
    extra = {"alpha": 1, "other": b} if op == "aclnnAdd" else {"mat2": b, "cubeMathType": 0}
    got = npu.call(op, self=x, out=x, **extra)["out"]
    torch.testing.assert_close(got, a + b if op == "aclnnAdd" else a @ b)


def test_offsets_and_strides_are_honoured_and_neighbours_left_alone(npu):
    base = torch.arange(40.0).view(5, 8)
    got = npu.tensor(base)
    view = npu.tensor(base[1:4, 2:6], memory=got.memory)
    npu.call("aclnnInplaceZero", selfRef=view)
    expected = base.clone()
    expected[1:4, 2:6] = 0
    assert torch.equal(got.read(), expected)


def test_nine_dimensions(npu):
    x = torch.randn(1, 2, 1, 2, 1, 2, 1, 2, 3)
    assert torch.equal(npu.call("aclnnExp", self=x, out=torch.empty_like(x))["out"], x.exp())


def test_a_dynamic_shape_is_written_to_the_callers_handle(npu):
    x = torch.tensor([0.0, 3.0, 0.0, 4.0])
    out = npu.tensor(torch.zeros(4, 1, dtype=torch.int64))
    npu.call("aclnnNonzero", self=x, out=out)
    assert out.shape() == (2, 1)
    assert out.read().flatten()[:2].tolist() == [1, 3]


def test_a_failing_kernel_names_itself(npu):
    from tests.opapi.client import Client

    other = Client()  # the failure stays on its stream
    with pytest.raises(AclError) as error:
        other.call("aclnnIndexSelect", self=torch.ones(3), dim=0, index=torch.tensor([7]), out=torch.empty(1))
    assert error.value.status in (507015, 507000, 507899) or error.value.status != 0
    assert "aclnnIndexSelect" in error.value.message


@pytest.mark.parametrize(
    ("at", "rows", "says"),
    [
        (9, 1, "index 9 is out of bounds for dimension 1 with size 4"),
        (-1, 1, "index -1 is out of bounds for dimension 1 with size 4"),
        (3, 2, "index 3 and the 2 rows from there on are out of bounds for dimension 1 with size 4"),
    ],
)
def test_a_failing_kernel_names_itself_once_and_the_index(npu, at, rows, says):
    from tests.opapi.client import Client

    other = Client()  # the failure stays on its stream
    update = {"data": torch.zeros(2, 4, 8), "indices": torch.tensor([0, at]), "updates": torch.ones(2, rows, 8)}
    with pytest.raises(AclError) as error:
        other.call("aclnnInplaceScatterUpdate", **update, axis=-2)
    assert f"aclnnInplaceScatterUpdate failed on device 0: {says}" in error.value.message


def test_kernels_do_not_inherit_the_caller(npu):
    """Autocast, inference mode, dispatch modes and flushed denormals of the calling thread change nothing."""
    a, b = torch.randn(6, 6), torch.randn(6, 6)
    tiny = torch.full((4,), 1e-39)
    expected = a @ b
    calls = []

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            calls.append(function)
            return function(*args, **(kwargs or {}))

    tensors = {"self": npu.tensor(a), "mat2": npu.tensor(b), "out": npu.tensor(torch.empty(6, 6))}
    small, halved = npu.tensor(tiny), npu.tensor(torch.empty(4))
    half = npu.scalar(0.5)
    try:
        torch.set_flush_denormal(True)
        with torch.autocast("cpu", torch.bfloat16), torch.inference_mode(), Mode():
            executor, size = npu.prepare("aclnnMatmul", cubeMathType=0, **tensors)
            npu.launch("aclnnMatmul", executor, size)
            executor, size = npu.prepare("aclnnMuls", self=small, other=half, out=halved)
            npu.launch("aclnnMuls", executor, size)
            npu.synchronize()
            seen = list(calls)
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(tensors["out"].read(), expected)
    assert torch.equal(halved.read(), tiny * 0.5)
    assert [f for f in seen if "mm" in str(f)] == []


def test_threads_of_the_caller_stay_as_set(npu):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        big = torch.randn(256, 256)
        for _ in range(3):
            npu.call("aclnnMatmul", self=big, mat2=big, out=torch.empty(256, 256), cubeMathType=0)
            npu.call("aclnnExp", self=big[:2], out=torch.empty(2, 256))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_two_threads_may_call_at_once(npu):
    from tests.opapi.client import Client

    failures = []

    def work(seed: int) -> None:
        try:
            client = Client()
            g = torch.Generator().manual_seed(seed)
            for _ in range(50):
                a, b = torch.randn(33, 7, generator=g), torch.randn(7, generator=g)
                got = client.call("aclnnMul", self=a, other=b, out=torch.empty(33, 7))["out"]
                assert torch.equal(got, a * b)
        except BaseException as error:  # noqa: BLE001 (reported by the test's own thread)
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


def test_a_list_owns_its_members(npu):
    member = npu.tensor(torch.ones(2))
    stale = P(member.value)
    made = npu.handle_list("Tensor", [member])
    made.close()
    assert npu.opapi.aclDestroyTensor(stale) == 161002
    gc.collect()
