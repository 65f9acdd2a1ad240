"""aclTensor, aclScalar, arrays and lists through the C ABI: values kept, stale handles refused, slots reused."""

from __future__ import annotations

import ctypes as C
import threading
from random import Random

import pytest

from tests.opapi.client import P, library_folder
from tests.runtime.acl import run

INVALID, NULL = 161002, 161001


@pytest.fixture(scope="module")
def lib() -> C.CDLL:
    return load()


def load() -> C.CDLL:
    made = C.CDLL(str(library_folder() / "libnnopbase.so"))
    for name in ("Tensor", "Scalar", "IntArray", "FloatArray", "BoolArray", "TensorList", "ScalarList"):
        getattr(made, f"aclCreate{name}").restype = P
    made.aclCreateTensor.argtypes = [P, C.c_uint64, C.c_int, P, C.c_int64, C.c_int, P, C.c_uint64, P]
    return made


def tensor(
    lib,
    *dims: int,
    strides: tuple[int, ...] | None = None,
    dtype: int = 0,
    offset: int = 0,
    storage: tuple[int, ...] = (64,),
):
    n = len(dims)
    steps = (C.c_int64 * n)(*strides) if strides else None
    return lib.aclCreateTensor(
        (C.c_int64 * n)(*dims),
        n,
        dtype,
        steps,
        offset,
        2,
        (C.c_int64 * len(storage))(*storage),
        len(storage),
        P(0x1000),
    )


def numbers(lib, function: str, handle: int) -> list[int]:
    values, count = P(), C.c_uint64()
    assert getattr(lib, function)(P(handle), C.byref(values), C.byref(count)) == 0
    return list((C.c_int64 * count.value).from_address(values.value))


def test_a_tensor_keeps_its_description(lib):
    t = tensor(lib, 3, 4, strides=(8, 2), dtype=9, offset=5, storage=(2, 32))
    assert numbers(lib, "aclGetViewShape", t) == [3, 4]
    assert numbers(lib, "aclGetViewStrides", t) == [8, 2]
    assert numbers(lib, "aclGetStorageShape", t) == [2, 32]
    offset, dtype, form, address = C.c_int64(), C.c_int(), C.c_int(), P()
    assert lib.aclGetViewOffset(P(t), C.byref(offset)) == 0 and offset.value == 5
    assert lib.aclGetDataType(P(t), C.byref(dtype)) == 0 and dtype.value == 9
    assert lib.aclGetFormat(P(t), C.byref(form)) == 0 and form.value == 2
    assert lib.aclGetRawTensorAddr(P(t), C.byref(address)) == 0 and address.value == 0x1000
    assert lib.aclSetRawTensorAddr(P(t), P(0x2000)) == 0
    assert lib.aclGetRawTensorAddr(P(t), C.byref(address)) == 0 and address.value == 0x2000
    assert lib.aclDestroyTensor(P(t)) == 0


@pytest.mark.parametrize("ndim", [0, 1, 8, 9, 40])
def test_any_rank(lib, ndim):
    dims = tuple(i % 2 + 1 for i in range(ndim))
    t = tensor(lib, *dims)
    assert numbers(lib, "aclGetViewShape", t) == list(dims)
    assert lib.aclDestroyTensor(P(t)) == 0


def test_negative_and_too_many_dimensions_are_refused(lib):
    assert tensor(lib, 3, -1) is None
    assert tensor(lib, *([1] * 65)) is None


@pytest.mark.parametrize(
    "dims, more",
    [
        ((2, 3), {"strides": (-3, 1)}),
        ((3,), {"strides": (-1,), "offset": 2}),
        ((2,), {"offset": -1}),
        ((2**32, 2**32), {}),
        ((2**61,), {}),  # of 4 bytes
        ((2**61,), {"strides": (0,)}),
        ((3, 3), {"strides": (2**62, 1)}),
        ((2,), {"strides": (2**62,), "dtype": 11}),
        ((1,), {"offset": 2**63 - 1}),
        ((2**63 - 1, 3), {"strides": (1, 0)}),
    ],
)
def test_what_cannot_be_reckoned_with_is_refused(lib, dims, more):
    assert tensor(lib, *dims, **more) is None
    t = tensor(lib, 4)
    n = len(dims)
    strides = (C.c_int64 * n)(*more["strides"]) if "strides" in more else None
    lib.aclInitTensor.argtypes = [P, P, C.c_uint64, C.c_int, P, C.c_int64, C.c_int, P, C.c_uint64, P]
    sizes = (C.c_int64 * n)(*dims)
    assert (
        lib.aclInitTensor(t, sizes, n, more.get("dtype", 0), strides, more.get("offset", 0), 2, sizes, n, None)
        == INVALID
    )
    assert numbers(lib, "aclGetViewShape", t) == [4]  # as it was
    assert lib.aclDestroyTensor(P(t)) == 0


@pytest.mark.parametrize("dims", [(0, 2**62, 2**62), (2**62, 2**62, 0), (2**60,)])
def test_large_and_empty_are_taken(lib, dims):
    t = tensor(lib, *dims)
    assert numbers(lib, "aclGetViewShape", t) == list(dims)
    assert lib.aclDestroyTensor(P(t)) == 0


def test_init_describes_anew(lib):
    t = tensor(lib, *range(1, 13))
    dims = (C.c_int64 * 2)(5, 6)
    lib.aclInitTensor.argtypes = [P, P, C.c_uint64, C.c_int, P, C.c_int64, C.c_int, P, C.c_uint64, P]
    assert lib.aclInitTensor(t, dims, 2, 1, None, 0, 2, dims, 2, P(0x3000)) == 0
    assert numbers(lib, "aclGetViewShape", t) == [5, 6] and numbers(lib, "aclGetViewStrides", t) == [6, 1]
    assert lib.aclDestroyTensor(P(t)) == 0


def test_a_destroyed_handle_is_refused_even_when_its_slot_lives_again(lib):
    old = tensor(lib, 2)
    assert lib.aclDestroyTensor(P(old)) == 0
    new = tensor(lib, 2)  # the same slot: last freed, first used
    assert new != old
    assert lib.aclDestroyTensor(P(old)) == INVALID
    assert lib.aclDestroyTensor(P(new)) == 0


def test_a_destroyed_handle_is_refused_after_many_uses_of_its_slot(lib):
    value = (C.c_double * 1)(1.0)
    old = lib.aclCreateScalar(value, 11)
    assert lib.aclDestroyScalar(P(old)) == 0
    for _ in range(100_000):
        new = lib.aclCreateScalar(value, 11)
        assert new != old
        lib.aclDestroyScalar(P(new))
    new = lib.aclCreateScalar(value, 11)
    assert lib.aclDestroyScalar(P(old)) == INVALID
    assert lib.aclDestroyScalar(P(new)) == 0


def test_numbers_at_random_are_no_handles():
    """Any number, and what a live handle is changed into: refused everywhere, and nothing is touched.

    In a process of its own: every handle that lives there is known.
    """
    run("from tests.nnopbase.test_handles import load, try_numbers; try_numbers(load())")


def try_numbers(lib: C.CDLL) -> None:
    random = Random(3)
    live = [tensor(lib, 2, 3) for _ in range(40)]
    known = set(live)
    shape = (P(), C.c_uint64())
    for _ in range(20_000):
        number = random.choice(live) if random.random() < 0.7 else random.getrandbits(random.choice((12, 32, 47, 64)))
        for _ in range(random.choice((0, 1, 1, 2, 5))):
            number ^= 1 << random.randrange(64)
        if random.random() < 0.1:
            number ^= 2**64 - 1
        if number in known or number == 0:
            continue
        assert lib.aclGetViewShape(P(number), C.byref(shape[0]), C.byref(shape[1])) == INVALID
        assert lib.aclDestroyTensor(P(number)) == INVALID
        assert lib.aclDestroyTensorList(P(number)) == INVALID
        assert lib.aclDestroyIntArray(P(number)) == INVALID
        assert lib.aclDestroyAclOpExecutor(P(number)) == INVALID
    for t in live:
        assert numbers(lib, "aclGetViewShape", t) == [2, 3]
        assert lib.aclDestroyTensor(P(t)) == 0


def test_descriptions_at_random(lib):
    """Every description is refused or kept as given."""
    random = Random(4)
    edges = (0, 1, 2, 7, 2**31, 2**32, 2**61, 2**62, 2**63 - 1, -1, -(2**63))
    made = 0
    for _ in range(5_000):
        n = random.randrange(7)
        dims = tuple(random.choice(edges) for _ in range(n))
        strides = tuple(random.choice(edges) for _ in range(n)) if random.random() < 0.5 else None
        offset, dtype = random.choice(edges), random.choice((-1, 0, 5, 11, 17, 41, 42, 2**31 - 1))
        t = tensor(lib, *dims, strides=strides, offset=offset, dtype=dtype)
        numel = 1
        for size in dims:
            numel *= size
        if t is None:
            continue
        made += 1
        assert min(dims, default=0) >= 0 and offset >= 0 and 0 <= numel < 2**63
        assert strides is None or min(strides, default=0) >= 0
        assert numbers(lib, "aclGetViewShape", t) == list(dims)
        assert lib.aclDestroyTensor(P(t)) == 0
    assert made > 200


def test_a_list_needs_its_members_and_a_size_that_can_be(lib):
    assert lib.aclCreateTensorList(None, C.c_uint64(2)) is None
    assert lib.aclCreateIntArray(None, C.c_uint64(2)) is None
    one = (C.c_int64 * 1)(5)
    assert lib.aclCreateIntArray(one, C.c_uint64(2**61)) is None
    assert lib.aclCreateTensorList(one, C.c_uint64(2**61)) is None


@pytest.mark.parametrize("pointer", [1, 0x1000, 0x7FFF00000000, 2**63])
def test_no_handle_at_all_is_refused(lib, pointer):
    size = C.c_int64()
    assert lib.aclGetViewOffset(P(pointer), C.byref(size)) == INVALID
    assert lib.aclDestroyScalar(P(pointer)) == INVALID


def test_null_is_destroyed_silently_and_refused_elsewhere(lib):
    for name in ("Tensor", "Scalar", "IntArray", "FloatArray", "BoolArray", "TensorList", "ScalarList"):
        assert getattr(lib, f"aclDestroy{name}")(P(None)) == 0
    value = C.c_int64()
    assert lib.aclGetViewOffset(P(None), C.byref(value)) == INVALID
    t = tensor(lib, 1)
    assert lib.aclGetViewOffset(P(t), P(None)) == NULL
    lib.aclDestroyTensor(P(t))


@pytest.mark.parametrize("kind, c_type", [("Int", C.c_int64), ("Float", C.c_float), ("Bool", C.c_bool)])
@pytest.mark.parametrize("n", [0, 3, 12, 200])
def test_arrays_know_their_size(lib, kind, c_type, n):
    array = getattr(lib, f"aclCreate{kind}Array")((c_type * max(n, 1))(), C.c_uint64(n))
    size = C.c_uint64(99)
    assert getattr(lib, f"aclGet{kind}ArraySize")(P(array), C.byref(size)) == 0 and size.value == n
    assert getattr(lib, f"aclDestroy{kind}Array")(P(array)) == 0
    assert getattr(lib, f"aclDestroy{kind}Array")(P(array)) == INVALID


def test_a_scalar_needs_a_type_with_a_size(lib):
    value = C.c_double(1.0)
    assert lib.aclCreateScalar(C.byref(value), 13) is None  # ACL_STRING
    scalar = lib.aclCreateScalar(C.byref(value), 11)
    assert lib.aclDestroyScalar(P(scalar)) == 0


@pytest.mark.parametrize("n", [1, 12, 100])
def test_a_list_owns_its_members(lib, n):
    members = [tensor(lib, 2) for _ in range(n)]
    made = lib.aclCreateTensorList((P * n)(*members), C.c_uint64(n))
    size = C.c_uint64()
    assert lib.aclGetTensorListSize(P(made), C.byref(size)) == 0 and size.value == n
    assert lib.aclDestroyTensorList(P(made)) == 0
    assert [lib.aclDestroyTensor(P(m)) for m in members] == [INVALID] * n


def test_a_list_refuses_a_dead_member(lib):
    dead = tensor(lib, 2)
    lib.aclDestroyTensor(P(dead))
    assert lib.aclCreateTensorList((P * 1)(dead), C.c_uint64(1)) is None


def test_handles_made_in_one_thread_die_in_another(lib):
    """Slots wander between the threads' free lists without loss: many more handles than a list holds."""
    failures = []

    def churn() -> None:
        for _ in range(20):
            made = [tensor(lib, 2, 3) for _ in range(300)]
            done = []
            other = threading.Thread(target=lambda: done.extend(lib.aclDestroyTensor(P(t)) for t in made))  # noqa: B023
            other.start()
            other.join()
            if done != [0] * 300 or len(set(made)) != 300:
                failures.append(done)

    threads = [threading.Thread(target=churn) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
