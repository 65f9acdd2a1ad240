"""A launch is a call: which function is meant and what its arguments become, C++ says."""

from __future__ import annotations

import ctypes as C
import re

import numpy as np
import pytest

from tests.ascendc.kit import bisheng, build

SOURCE = """#include "kernel_operator.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <numeric>
using namespace AscendC;
using namespace std;
__aicore__ inline void put(GM_ADDR x, int v) { ((__gm__ int*)x)[GetBlockIdx()] = v; }
struct Two { int a, b; };
struct Counted {
  static inline std::atomic<int> copies = 0;
  Counted() = default;
  Counted(const Counted&) { ++copies; }
};
int twice(int v) { return 2 * v; }
float twice(float v) { return v; }

template <class T, class U = T> __global__ __aicore__ void deduced(GM_ADDR x, T a, U b) { put(x, int(a + 8 * b)); }
template <class T = float, int N = 2> __global__ __aicore__ void defaults(GM_ADDR x, T n) { put(x, int(n * N)); }
template <class T> __global__ __aicore__ enable_if_t<sizeof(T) >= 4> sized(GM_ADDR x, T n) { put(x, int(n)); }
template <class T> __global__ __aicore__ enable_if_t<sizeof(T) < 4> sized(GM_ADDR x, T n) { put(x, int(n) + 1); }
template <int N> __global__ __aicore__ void chosen(GM_ADDR x, conditional_t<N <= 4, float, int> v) {
  put(x, int(2 * v));
}
template <bool B> __global__ __aicore__ void flagged(GM_ADDR x) { put(x, B ? 7 : 8); }
__global__ __aicore__ void braces(GM_ADDR x, Two t, GM_ADDR w, int n = 0) { put(x, w ? 0 : t.a + t.b + n); }
__global__ __aicore__ void braces(GM_ADDR x, Two t) { put(x, t.a * t.b); }
__global__ __aicore__ void taken(GM_ADDR x, shared_ptr<int> q, int (*f)(int), uint32_t n = 0) { put(x, f(*q) + n); }
template <class T> __global__ __aicore__ void plain(T* x, uint32_t n, float f) { put((GM_ADDR)x, int(n + f)); }
template <class T> __global__ __aicore__ void kernel(GM_ADDR x, T n, int m = 0) { put(x, int(n) + m); }
__global__ __aicore__ void (brackets)(GM_ADDR x, int n) { put(x, n); }
__global__ __aicore__ void copied(GM_ADDR x, [[maybe_unused]] Counted c, int n = 7) { put(x, n); }

// Names of AscendC's and of the standard library's, and of functions beside the kernels.
__global__ __aicore__ void Relu(GM_ADDR x, int n) { put(x, n); }
extern "C" __global__ __aicore__ void Exp(GM_ADDR x, int n) { put(x, n); }
extern "C" __global__ __aicore__ void accumulate(GM_ADDR x, int n) { put(x, n); }
extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, int n) { put(x, n); }
void add_custom(uint32_t blocks, void* stream, uint8_t* x, int n) { add_custom<<<blocks, nullptr, stream>>>(x, n); }
template <class T> __global__ __aicore__ void beside(GM_ADDR x, T n) { put(x, int(n)); }
template <class T> void beside(uint32_t blocks, void* s, GM_ADDR x, T n) { beside<T><<<blocks, nullptr, s>>>(x, n); }

// Variables and members of a kernel's name.
template <class F, class... A> void launch(F kernel, void* s, A... a) { kernel<<<4, nullptr, s>>>(a...); }
struct Holder {
  void (*kernel)(GM_ADDR, int, int);
  void go(void* s, GM_ADDR x) const { kernel<<<4, nullptr, s>>>(x, 3, 4); }
};
template <int N> void compared(void* s, GM_ADDR x) { flagged<N >= 4><<<4, nullptr, s>>>(x); }
void (*global)(GM_ADDR, int) = Relu;
int evaluated;
auto next_of(int which) { return ++evaluated, which ? global : nullptr; }
// Packs around launches.
template <int N> __global__ __aicore__ void numbered(GM_ADDR x) { put(x, N); }
template <int... N> void each(void* s, GM_ADDR x) { (numbered<N><<<4, nullptr, s>>>(x), ...); }
template <size_t... I> void pick(void* s, GM_ADDR x, size_t i, std::index_sequence<I...>) {
  ((i == I ? numbered<I><<<4, nullptr, s>>>(x) : void()), ...);
}
template <class... K> void all_of(void* s, GM_ADDR x, K... kernel) { (kernel<<<4, nullptr, s>>>(x, 3, 4), ...); }
// Names in brackets, and members.
template <class T> struct Base {
  static __global__ __aicore__ void member(GM_ADDR x, T n = 7) { put(x, int(n)); }
};
template <class T> struct Derived : Base<T> {
  int a;
  Derived(void* s, GM_ADDR x) : a((this->member<<<4, nullptr, s>>>(x), 0)) {}
  Derived(void* s, GM_ADDR x, int n);
};
template <class T> Derived<T>::Derived(void* s, GM_ADDR x, int n) : a{(this->member<<<4, nullptr, s>>>(x, n), 0)} {
  Relu<<<1, nullptr, s>>>(x + 16, n);
}
void* g_stream = nullptr;
GM_ADDR g_x = nullptr;
struct Members {
  int n = 7, b = (Relu<<<4, nullptr, g_stream>>>(g_x, n), 0);
  static void defaulted(int = (Relu<<<4, nullptr, g_stream>>>(g_x, 7), 0)) {}
};
// Where a lambda may refer to what is around it, and where not.
template <class T> concept Small = sizeof(T) < 16;
template <class T> void required(void* s, GM_ADDR x, T n) requires requires { sizeof(T); } && Small<T> {
  kernel<T><<<4, nullptr, s>>>(x, n);
}
template <class T> enable_if_t<sizeof(T) >= 4> at_least(void* s, GM_ADDR x, T n) { kernel<<<4, nullptr, s>>>(x, n); }
template <class T, class = enable_if_t<sizeof(T) <= 4>> void at_most(void* s, GM_ADDR x, T n) {
  kernel<<<4, nullptr, s>>>(x, n);
}
template <int N = 1 << 2, bool Few = N < 8> void shifted(void* s, GM_ADDR x) { Relu<<<N, nullptr, s>>>(x, Few + 6); }
struct Pipeline {
  void* s;
  Pipeline& operator=(GM_ADDR x);
  template <int N = 1 << 2> static void go(void* s, GM_ADDR x) { Relu<<<N, nullptr, s>>>(x, 7); }
};
Pipeline& operator+=(Pipeline& q, GM_ADDR x) {
  Relu<<<4, nullptr, q.s>>>(x, 7);
  return q;
}
Pipeline& Pipeline::operator = (GM_ADDR x) {
  Relu<<<4, nullptr, s>>>(x, 7);
  return *this;
}
auto operator<<(Pipeline q, GM_ADDR x) -> Pipeline {
  Relu<<<4, nullptr, q.s>>>(x, 7);
  return q;
}
constexpr auto constrained = [](auto s, auto x) requires (sizeof(x) > 0) { Relu<<<4, nullptr, s>>>(x, 7); };
struct One { int n; };
struct Other { int m; };
template <class... Bs> struct Bases : Bs... {
  Bases(void* s, GM_ADDR x, int v) : Bs{v}... { Relu<<<4, nullptr, s>>>(x, v); }
};
auto result(void* s, GM_ADDR x, int n) noexcept(bool{true}) -> std::array<int, int{2}> {
  Relu<<<4, nullptr, s>>>(x, n);
  return {};
}
struct InBraces {
  int a, b;
  InBraces(void* s, GM_ADDR x, int n) : a{n}, b((Relu<<<4, nullptr, s>>>(x, n), 0)) {}
};
struct OwnBraces { void* s; GM_ADDR x; int n = 7, b{(Relu<<<4, nullptr, s>>>(x, n), 0)}; };
struct alignas(64) Aligned : std::array<int, (sizeof(int) > 2)> {
  static inline int r = g_stream ? (Relu<<<4, nullptr, g_stream>>>(g_x, 1), 1) : 0;
};
int in_braces{g_stream ? (Relu<<<4, nullptr, g_stream>>>(g_x, 1), 1) : 0};
int chosen_at_start = (g_x && g_stream) ? (Relu<<<4, nullptr, g_stream>>>(g_x, 1), 1) : g_stream ?
    (Relu<<<4, nullptr, g_stream>>>(g_x, 2), 1) : 0;
int listed[] = {(g_stream ? Relu<<<4, nullptr, g_stream>>>(g_x, 2) : void(), 1)};
auto launcher = [] (void* s, GM_ADDR x) mutable noexcept -> void { Relu<<<4, nullptr, s>>>(x, 7); };
int start() { return 0; }
int at_start = g_stream ? (Relu<<<4, nullptr, g_stream>>>(g_x, 7), 1) : start(), braced{at_start ? 1 : 2};
int of_a_name(const char* name) { return string(name) == "go_name" ? 7 : 8; }

extern "C" {
#define GO(name, ...) void go_##name(void* s, GM_ADDR x) { __VA_ARGS__; }
GO(deduced, deduced<int><<<4, nullptr, s>>>(x, 3, 0.5))
GO(defaults, defaults<<<4, nullptr, s>>>(x, 3))
GO(sized, sized<float><<<4, nullptr, s>>>(x, 7))
GO(sized_less, sized<half><<<4, nullptr, s>>>(x, half(6.0f)))
GO(chosen, chosen<4><<<4, nullptr, s>>>(x, 3.5f))
GO(compared, compared<4>(s, x))
GO(braces, braces<<<4, nullptr, s>>>(x, {3, 4}, NULL))
GO(braces_two, braces<<<4, nullptr, s>>>(x, {.a = 3, .b = 4}))
GO(zero, braces<<<4, nullptr, s>>>(x, {3, 4}, 0, 5))
GO(taken, taken<<<4, nullptr, s>>>(x, make_unique<int>(4), twice))
GO(plain, plain<<<4, nullptr, s>>>(x, 7, 0.5))
GO(brackets, brackets<<<4, nullptr, s>>>(x, 7))
GO(Relu, Relu<<<4, nullptr, s>>>(x, 7))
GO(Exp, aclrtlaunch_Exp(4, s, x, 7))
GO(accumulate, accumulate<<<4, nullptr, s>>>(x, 7))
GO(add_custom, add_custom(4, s, x, 7))
GO(beside, beside(4, s, x, 7))
GO(kernel, launch(kernel<int>, s, x, 3, 4))
GO(held, Holder{kernel<int>}.go(s, x))
GO(binding, Two two{3, 4}; auto& [a, b] = two; [&] { kernel<<<4, nullptr, s>>>(x, a, b); }())
GO(pointer, (evaluated ? global : next_of(1))<<<4, nullptr, s>>>(x, 7))
GO(nested, kernel<<<4, nullptr, s>>>(x, (Relu<<<4, nullptr, s>>>(x, 3), 7)))
GO(copied, const Counted counted; copied<<<4, nullptr, s>>>(x, counted))
GO(each, each<3, 7>(s, x))
GO(pick, pick(s, x, 7, make_index_sequence<9>()))
GO(all_of, all_of(s, x, kernel<int>, kernel<int>))
GO(bracketed, (braces)<<<4, nullptr, s>>>(x, {3, 4}, nullptr))
GO(member, Derived<int>(s, x))
GO(outside, Derived<int>(s, x, 7))
GO(initialized, g_stream = s; g_x = x; Members())
GO(defaulted, g_stream = s; g_x = x; Members::defaulted())
GO(at_least, at_least(s, x, 7))
GO(at_most, at_most(s, x, 7))
GO(shifted, shifted(s, x))
GO(assigned, Pipeline{s} = x)
GO(added, Pipeline q{s}; q += x)
GO(piped, Pipeline{s} << x)
GO(pipeline, Pipeline::go(s, x))
GO(constrained, constrained(s, x))
GO(largest, Relu<<<4, nullptr, s>>>(x, std::max({1, 7, 2}) + [] { return 0; }()))
GO(required, required(s, x, 7))
GO(bases, Bases<One, Other>(s, x, 7))
GO(result, result(s, x, 7))
GO(in_braces, InBraces(s, x, 7))
GO(own_braces, OwnBraces{s, x})
GO(launcher, launcher(s, x))
GO(name, Relu<<<4, nullptr, s>>>(x, of_a_name(__func__)))
int copies() { return Counted::copies; }
int go_null(void* s, GM_ADDR x) {
  evaluated = 0;
  try {
    next_of(0)<<<4, nullptr, s>>>(x, 7);
  } catch (const std::runtime_error& e) {
    return string(e.what()).ends_with("<<<>>>: the kernel's pointer is null") ? evaluated : -1;
  }
  return -2;
}
int go_local(void* s, GM_ADDR x) {
  void (*kernel)(GM_ADDR, int) = nullptr;
  try {
    kernel<<<4, nullptr, s>>>(x, 7);
  } catch (const std::runtime_error& e) {
    return string(e.what()) == "kernel<<<>>>: the kernel's pointer is null";
  }
  return -2;
}
}
"""
WANTED = {"deduced": 7, "defaults": 6, "sized": 7, "sized_less": 7, "chosen": 7, "compared": 7, "braces": 7}
WANTED |= {"braces_two": 12, "zero": 12, "taken": 8, "plain": 7, "brackets": 7, "Relu": 7, "Exp": 7, "accumulate": 7}
WANTED |= {"add_custom": 7, "beside": 7, "kernel": 7, "held": 7, "binding": 7, "pointer": 7, "nested": 7}
WANTED |= {"each": 7, "pick": 7, "all_of": 7, "bracketed": 7, "member": 7, "outside": 7, "initialized": 7}
WANTED |= {"defaulted": 7, "name": 7, "required": 7, "bases": 7, "result": 7, "in_braces": 7, "own_braces": 7}
WANTED |= {"launcher": 7, "at_least": 7, "at_most": 7, "shifted": 7, "assigned": 7, "added": 7, "piped": 7}
WANTED |= {"pipeline": 7, "constrained": 7, "largest": 7}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    (folder / "c.asc").write_text(SOURCE)
    return C.CDLL(str(build(folder / "c.asc", folder, "-Wall", "-Wextra", "-Wshadow", "-Werror")))


@pytest.mark.parametrize("name", WANTED)
def test_a_launch_means_what_a_call_does(library, device, name):
    pointer = device.put(np.zeros(8, np.uint32))
    getattr(library, f"go_{name}")(C.c_void_p(device.stream), C.c_void_p(pointer))
    assert device.finish() == ""
    assert device.get(pointer, np.zeros(4, np.uint32)).tolist() == [WANTED[name]] * 4
    device.acl.aclrtFree(pointer)


def test_an_argument_is_copied_for_the_kernel_to_be_kept_and_for_each_core(library, device):
    pointer = device.put(np.zeros(4, np.uint32))
    library.go_copied(C.c_void_p(device.stream), C.c_void_p(pointer))
    assert device.finish() == "" and library.copies() == 1 + 1 + 4 * 2  # its cores' and the body's; it has no move
    device.acl.aclrtFree(pointer)


def test_an_expression_that_is_launched_is_computed_once(library, device):
    assert library.go_null(C.c_void_p(device.stream), None) == 1
    assert library.go_local(C.c_void_p(device.stream), None) == 1


MISTAKES = {
    "k<<<4, nullptr, s>>>(x, unknown);": ("‘unknown’ was not declared in this scope", 1),
    "k<<<4, nullptr, s>>>(x, 7, 8);": ("too many arguments to function ‘void k(GM_ADDR, int)’", 1),
    "k<<<s, nullptr, s>>>(x, 7);": ("could not convert", 1),
    "k<<<4, nullptr, s>>>(x, 7;": ("the kernel's arguments do not end", 1),
    "k<<<4, nullptr, s>>>(x, ({ if (!s) return; 7; }));": ("return in an argument of a launch would leave", 1),
    "k<<<4, nullptr, s>>>(x, co_await s);": ("co_await in an argument of a launch: give its result a name before", 1),
    "unknown<<<4, nullptr, s>>>(x, 7);": ("‘unknown’ was not declared in this scope", 1),
    "t<Unknown><<<4, nullptr, s>>>(x, 7);": ("‘Unknown’ was not declared in this scope", 5),
}


@pytest.mark.parametrize("launch", MISTAKES)
def test_a_mistake_is_an_error_of_its_line(tmp_path, launch):
    kernels = "__global__ __aicore__ void k(GM_ADDR, int) {}\ntemplate <class T> __global__ void t(GM_ADDR, T) {}\n"
    text = f'#include "kernel_operator.h"\n{kernels}void f(void* s, GM_ADDR x) {{\n  {launch}\n}}\n'
    (tmp_path / "k.asc").write_text(text)
    done = bisheng("-fsyntax-only", tmp_path / "k.asc", env={"LC_ALL": "C.UTF-8"})
    errors = [line for line in done.stderr.splitlines() if ": error: " in line or re.search(r"k\.asc:\d+: ", line)]
    said, most = MISTAKES[launch]
    assert done.returncode == 1 and said in errors[0] and len(errors) <= most, done.stderr
    assert all("k.asc:5:" in line for line in errors), errors
