"""Parameters of kernels, in all the ways in which C++ declares them."""

from __future__ import annotations

import ctypes as C
import json
import subprocess
import sys

import numpy as np
import pytest

from tests.ascendc.kit import ROOM, build

# Of each parameter: its name, its type as C writes it, ... of a pack, = of a default argument.
DECLARED = {
    "": [],
    "void": [],
    "int a, GM_ADDR b": ["a: int", "b: GM_ADDR"],
    "unsigned long long int a, const volatile T* const b": ["a: unsigned long long int", "b: const volatile T* const"],
    "int, T, X :: type, const int = 3, int (*)(int)": [
        ": int",
        ": T",
        ": X :: type",
        ": const int =",
        ": int (*)(int)",
    ],
    "T T, struct T U, ::n::m<int, (1 > 2)>::type::x y": ["T: T", "U: struct T", "y: ::n::m<int, (1 > 2)>::type::x"],
    "int a[], int b[3], int c[][3], int *d[2]": ["a: int*", "b: int*", "c: __typeof__(int (*)[3])", "d: int **"],
    "T (*__restrict__ a)[4], float* __restrict b": ["a: __typeof__(T (*)[4])", "b: float*"],
    "int f(int), int (n), int (m)[2]": ["f: __typeof__(int (*)(int))", "n: int", "m: int*"],
    "void (*f)(T, T) noexcept, auto (*g)(T) -> int": [
        "f: __typeof__(void (*)(T, T) noexcept)",
        "g: __typeof__(auto (*)(T) -> int)",
    ],
    "int C::*m, int (C::*h)(int) const": ["m: int C::*", "h: __typeof__(int (C::*)(int) const)"],
    "int (*(*f)(int))(char), T (&&a)[2]": ["f: __typeof__(int (*(*)(int))(char))", "a: __typeof__(T (&&)[2])"],
    "std::tuple<A...> t, A... a, A&&... b": ["t: std::tuple<A...>", "a: A... ...", "b: A&&... ..."],
    "auto... c, A (&...d)[2], T...": ["c: auto... ...", "d: __typeof__(A (&...)[2]) ...", ": T... ..."],
    "decltype(x)::type a, __typeof__(b) c": ["a: decltype(x)::type", "c: __typeof__(b)"],
    "typename T::template U<V>::W d, C auto e": ["d: typename T::template U<V>::W", "e: C auto"],
    "bool a = b < c, int d = 3, T e = f<g, h>(1, 2)": ["a: bool =", "d: int =", "e: T ="],
    "T i = {j, k}, int (*l)(int) = m": ["i: T =", "l: __typeof__(int (*)(int)) ="],
    "int a = sizeof(Foo<int, int>), int b = std::max<int>(1, 2)": ["a: int =", "b: int ="],
    "int c = f<g, h * k, 3>(), bool d = x > y, bool e = x<y, z == w, v>::u": ["c: int =", "d: bool =", "e: bool ="],
    "bool a = b < c, const T& = d, bool h = i <= j, A... k": ["a: bool =", ": const T& =", "h: bool =", "k: A... ..."],
    "int a = [](auto b, T c) { return b < c; }(1, 2), T d = 1 << 2, T e": ["a: int =", "d: T =", "e: T"],
    "int a, ...": ["a: int", "the ... of C"],
    "int 5": None,
    "T a b": None,
    "int a, , int b": None,
}
SCRIPT = """import json, sys
from declarator import parameters
def shown(code, p):
    if p.any_number: return "the ... of C"
    text = code[p.begin:p.end]
    kind = (p.type(text) if p.name else text).strip()
    return f"{p.name}: {kind}{' ...' * p.pack}{' =' * p.default}"
def read(code):
    found = parameters(code, 0, len(code))
    return found if found is None else [shown(code, p) for p in found]
print(json.dumps({code: read(code) for code in json.loads(sys.argv[1])}))
"""


@pytest.fixture(scope="module")
def declared():
    command = [sys.executable, "-c", SCRIPT, json.dumps(list(DECLARED))]
    environment = {"PYTHONPATH": str(ROOM / "compiler"), "PYTHONDONTWRITEBYTECODE": "1"}
    return json.loads(subprocess.run(command, env=environment, text=True, check=True, capture_output=True).stdout)


@pytest.mark.parametrize("text", DECLARED)
def test_what_is_declared(declared, text):
    assert declared[text] == DECLARED[text]


SOURCE = """#include "kernel_operator.h"
#include <csetjmp>
#include <memory>
#include <stdexcept>
#ifdef __x86_64__
#include <immintrin.h>
#endif
__aicore__ inline void put(GM_ADDR x, int v) { ((__gm__ int*)x)[AscendC::GetBlockIdx()] = v; }
int seven(int v) { return v + 7; }
constexpr int kA = 3, kB = 5;
template <class T> struct Holds { T value; };
struct Tiling { int n; };
struct X { struct type {}; };
struct NoMove { int n; explicit NoMove(int v) : n(v) {} NoMove(const NoMove&) = default; NoMove(NoMove&&) = delete; };
struct OfItsOwn { int n = 0; OfItsOwn() = default; OfItsOwn(OfItsOwn& o) : n(o.n) {} };

__global__ __aicore__ void bound(GM_ADDR, __gm__ int (*__restrict__ a)[4]) { a[0][AscendC::GetBlockIdx()] = 7; }
__global__ __aicore__ void function(GM_ADDR x, int f(int), int (n)) { put(x, f(n)); }
__global__ __aicore__ void of_its_type(GM_ADDR x, Tiling Tiling) { put(x, Tiling.n); }
__global__ __aicore__ void no_move(GM_ADDR x, const NoMove t, NoMove u) { put(x, t.n + u.n); }
__global__ __aicore__ void unnamed(GM_ADDR x, int n, X :: type) { put(x, n); }
extern "C" __global__ __aicore__ void from_c(GM_ADDR x, int (*f)(int), const int a[][2]) { put(x, f(a[0][1])); }
__global__ __aicore__ void returns_twice(GM_ADDR x) {
  jmp_buf b;
  volatile int n = 0;
  if (!setjmp(b)) {
    n = n + 7;
    longjmp(b, 1);
  }
  put(x, n);
}
template <class T> __global__ __aicore__ void meant(GM_ADDR x, T n, decltype(n) m) noexcept(sizeof(n) == 1)
  requires(sizeof(n) < 16)
{
  put(x, n + m);
}
__global__ __aicore__ void may_throw(GM_ADDR, int n) noexcept(false) { if (n) throw std::runtime_error("n"); }
__global__ __aicore__ void catches(GM_ADDR x, int n) {
  try {
    may_throw(x, n);
  } catch (const std::runtime_error&) {
    put(x, n);
  }
}
template <class... A> __global__ __aicore__ void arrays(GM_ADDR x, A (&...a)[2]) { put(x, (a[0] + ...)); }
__global__ __aicore__ void owns(GM_ADDR x, std::unique_ptr<int> p, bool l = kA < kB, int& r = *std::make_unique<int>(),
                                int s = sizeof(Holds<int>), int m = std::max<int>(1, 2), OfItsOwn o = OfItsOwn()) {
  put(x, *p + l + s + m + o.n), r = *p;
}
__global__ __aicore__ void calls(GM_ADDR x, int n) {
  int a[2] = {n, 0}, b[2] = {3, 0};
  arrays(x, a, b);
  OfItsOwn own;
  int out = 0;
  own.n = ((__gm__ int*)x)[AscendC::GetBlockIdx()];
  owns(x, std::make_unique<int>(10), kA > kB, out, 20, 30, own);
  put(x, ((__gm__ int*)x)[AscendC::GetBlockIdx()] + out);
}
#ifdef __x86_64__
[[gnu::target("avx2")]] __global__ __aicore__ void wide(GM_ADDR x);
__global__ __attribute__((__target__("avx2"))) __aicore__ void wider(GM_ADDR x) {
  put(x, _mm256_extract_epi32(_mm256_abs_epi32(_mm256_set1_epi32(-7)), 0));
}
__global__ __aicore__ void wide(GM_ADDR x) { put(x, _mm256_extract_epi32(_mm256_abs_epi32(_mm256_set1_epi32(-7)), 0)); }
#else
__global__ __aicore__ void wider(GM_ADDR x) { put(x, 7); }
__global__ __aicore__ void wide(GM_ADDR x) { put(x, 7); }
#endif

extern "C" {
#define GO(name, ...) void go_##name(void* s, uint8_t* x) { name<<<4, nullptr, s>>>(x __VA_OPT__(,) __VA_ARGS__); }
void go_bound(void* s, uint8_t* x) { bound<<<4, nullptr, s>>>(nullptr, (__gm__ int (*)[4])x); }
GO(function, seven, 2)
GO(of_its_type, Tiling{7})
GO(no_move, NoMove(7), NoMove(2))
GO(unnamed, 7, {})
GO(returns_twice)
GO(meant, 3, 4)
GO(catches, 7)
GO(calls, 7)
GO(wide)
GO(wider)
void go_from_c(void* s, uint8_t* x) {
  static const int a[1][2] = {{1, 2}};
  aclrtlaunch_from_c(4, s, x, seven, a);
}
}
"""
WANTED = {"bound": 7, "function": 9, "of_its_type": 7, "no_move": 9, "unnamed": 7, "from_c": 9, "returns_twice": 7}
WANTED |= {"meant": 7, "catches": 7, "calls": 80, "wide": 7, "wider": 7}


@pytest.fixture(scope="module", params=["-O0", "-O2"])
def library(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parameters")
    (folder / "p.asc").write_text(SOURCE)
    warned = ("-Wall", "-Wextra", "-Wshadow", "-Wuseless-cast", "-Werror")
    return C.CDLL(str(build(folder / "p.asc", folder, request.param, *warned)))


@pytest.mark.parametrize("name", WANTED)
def test_launches(library, device, name):
    pointer = device.put(np.zeros(4, np.uint32))
    getattr(library, f"go_{name}")(C.c_void_p(device.stream), C.c_void_p(pointer))
    assert device.finish() == ""
    assert device.get(pointer, np.zeros(4, np.uint32)).tolist() == [WANTED[name]] * 4
    device.acl.aclrtFree(pointer)
