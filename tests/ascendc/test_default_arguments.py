"""Default arguments that a launch leaves out: evaluated once, when it is made."""

from __future__ import annotations

import ctypes as C
import re

import numpy as np
import pytest

from tests.ascendc.kit import FLAGS, GCC, bisheng, build

SOURCE = """#include "kernel_operator.h"
#include <any>
#include <array>
#include <optional>
#include <atomic>
#include <tuple>
#include <memory>
#include <unistd.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
using namespace AscendC;
__aicore__ inline void mark(GM_ADDR x, uint32_t v) {
  GlobalTensor<uint32_t> g;
  g.SetGlobalBuffer((__gm__ uint32_t*)x);
  g.SetValue(GetBlockIdx(), v);
}
int calls;
uint32_t setting = 5;
uint32_t next() { return ++calls; }
template <class A, class B> uint32_t sizes(A = {}, B = {}) { return sizeof(A) + sizeof(B); }
struct Both { uint32_t a, b; };
Both both() { return {setting, next()}; }

__global__ __aicore__ void of_a_call(GM_ADDR x, uint32_t v = next()) { mark(x, v); }
extern "C" __global__ __aicore__ void of_a_variable(GM_ADDR x, uint32_t v = setting) { mark(x, v); }
__global__ __aicore__ void of_two(GM_ADDR x, uint32_t a = (next(), setting), Both b = both()) {
  mark(x, 100 * a + 10 * b.a);
}
__global__ __aicore__ void literals(GM_ADDR x, GM_ADDR y = 0, uint32_t v = -(3) + 10, float f = .5e1f,
                                    const char* c = "next()", Both b = {2, 1}, bool t = true, GM_ADDR z = nullptr) {
  mark(x, y || z || !t ? 0 : v + uint32_t(f) + (c[0] == 'n') + b.a);
}
template <class T, int N = 2> __global__ __aicore__ void of_a_template(GM_ADDR x, T t = T(next()), int n = N) {
  mark(x, sizeof(T) * 10 + t * n);
}
__global__ __aicore__ void commas(GM_ADDR x, uint32_t v = sizes<char, uint16_t>(),
                                  uint32_t w = (setting < 1 || setting > 3)) {
  mark(x, v * 10 + w);
}
__global__ __aicore__ void declared(GM_ADDR x, uint32_t v = next());
__global__ __aicore__ void declared(GM_ADDR x, uint32_t v) { mark(x, v); }
namespace n { struct Of { static __global__ __aicore__ void member(GM_ADDR x, uint32_t v = next()) { mark(x, v); } }; }
constexpr int kA = 3, kB = 5;
__global__ __aicore__ void less(GM_ADDR x, bool v = kA < kB, uint32_t w = next(), bool u = kA <= kB,
                                uint32_t t = std::integral_constant<int, kA<kB>::value, bool s = kA < kB || kB > kA) {
  mark(x, v + w + u + t + s);
}
std::atomic<uint32_t> counter{6};
uint32_t twice(uint32_t v) { return 2 * v; }
uint32_t twice(float v) { return 4 * v; }
struct Base { virtual uint32_t get() const = 0; operator uint32_t() const { return get(); } };
struct Derived : Base { uint32_t get() const override { return calls + 7; } } derived;
[[noreturn]] inline uint32_t throws() { throw std::out_of_range("my own"); }
__global__ __aicore__ void thrown(GM_ADDR x, uint32_t v = throws()) { mark(x, v); }
__global__ __aicore__ void arrays(GM_ADDR x, bool z = kA < kB, std::array<uint32_t, 2> q = {1, 2},
                                  uint32_t w = setting) {
  mark(x, z + q[0] + q[1] + w);
}
std::optional<uint32_t> maybe = 4;
const uint32_t nine = 9;
std::any anything = 5u;
__global__ __aicore__ void taken(GM_ADDR x, std::optional<uint32_t> o = maybe, const std::any a = anything,
                                 std::optional<uint32_t> n = std::nullopt, const uint32_t = next(),
                                 unsigned int = setting, const uint32_t* p [[maybe_unused]] = &nine) {
  mark(x, *o + std::any_cast<uint32_t>(a) + n.value_or(1) + *p);
}
const Base& base() { return derived; }
__global__ __aicore__ void converted(GM_ADDR x, uint32_t v = counter, uint32_t (*f)(uint32_t) = twice,
                                     uint32_t w = base(), float g = {2}, uint32_t n = sizeof("a,b=(c)")) {
  mark(x, v + f(1) + w + uint32_t(g) + n);
}
constexpr __global__ __aicore__ void constant(GM_ADDR x, uint32_t v = next()) { mark(x, v); }

__global__ __aicore__ void braces(GM_ADDR x, Both b = {next(), 2}) { mark(x, 10 * b.a++ + b.b); }
uint32_t referred(uint32_t& v) { return v + setting; }
__global__ __aicore__ void references(GM_ADDR x, uint32_t (*f)(uint32_t&) = setting == 5 ? referred : nullptr,
                                      std::tuple<uint32_t, const uint32_t&> t = {next(), nine}) {
  mark(x, f ? std::get<0>(t) + std::get<1>(t) : 0);
}
__global__ __aicore__ void lines(GM_ADDR x, uint32_t line = __builtin_LINE()) { mark(x, line); }
__global__ __aicore__ void letters(GM_ADDR x, uint32_t v = 'a' + setting, char c = "abc"[calls]) { mark(x, v + c); }
template <class T> struct Holds { using type = T; };
uint32_t table[2][3] = {{1, 2, 3}, {4, 5, 6}};
__global__ __aicore__ void types(GM_ADDR x, bool v = kA < kB, const Both b = Both{1, 2}, uint32_t = next(),
                                 Holds<uint32_t>::type w = setting, std::optional<decltype(setting)> o = maybe,
                                 uint32_t a[][3] = table) {
  mark(x, v + b.b + w + *o + a[1][2]);
}
struct Outside { static __global__ __aicore__ void defined(GM_ADDR x, uint32_t v = next()); };
__global__ __aicore__ void Outside::defined(GM_ADDR x, uint32_t v) { mark(x, v); }
__global__ __aicore__ void sync(GM_ADDR x, uint32_t v) { mark(x, v); }
using Reference = uint32_t&;
__global__ __aicore__ void refers(GM_ADDR, Reference v, uint32_t by = 1u << 2) { v += by; }
template <class... A> __global__ __aicore__ void tuples(GM_ADDR x, std::tuple<A...> tuples, int (*)(int) noexcept) {
  mark(x, std::get<1>(tuples) + sizeof...(A));
}
template <class... A> __global__ __aicore__ void refers_to_all(GM_ADDR, A&&... v) { ((v += 10), ...); }
__global__ __aicore__ void looks(GM_ADDR x, const Base& b, uint32_t (&v)[2]) noexcept { mark(x, b.get() + ++v[1]); }
__global__ __aicore__ void owns(GM_ADDR, std::unique_ptr<uint32_t> v, uint32_t& to) { to += *v; }
__global__ __aicore__ void calls_refers(GM_ADDR x, uint32_t v = next()) {
  refers(x, v), refers_to_all(x, v, v), mark(x, v);
}
__global__ __aicore__ void calls_others(GM_ADDR x, uint32_t v = next()) {
  struct Third : Base { uint32_t get() const override { return 3; } } third;
  uint32_t array[2] = {v, 4};
  looks(x, third, array), owns(x, std::make_unique<uint32_t>(7), array[0]);
  GlobalTensor<uint32_t> g;
  g.SetGlobalBuffer((__gm__ uint32_t*)x);
  mark(x, g.GetValue(GetBlockIdx()) + 10 * array[1] + 100 * array[0]);
}
__global__ __aicore__ void jumps(GM_ADDR x, uint32_t v = next()) {
  static void* const to[] = {&&none, &&one};
  goto *to[v];
none:
  return;
one:
  mark(x, 8);
}
struct Copied { Copied() = default; Copied(const Copied&) { throw std::out_of_range("copy"); } };
__global__ __aicore__ void no_copy(GM_ADDR x, Copied) noexcept { mark(x, 1); }
extern "C" __global__ __aicore__ void from_c(GM_ADDR x, Copied c [[maybe_unused]]) { mark(x, 1); }
__global__ __aicore__ void other(GM_ADDR x, uint32_t v) { mark(x, v); }
inline uint32_t calls_a_kernel() { return other(nullptr, 9), next(); }
__global__ __aicore__ void of_a_kernel(GM_ADDR x, uint32_t v = calls_a_kernel()) { mark(x, v + 20); }
__attribute__((target("avx512f"))) __global__ __aicore__ void wide(GM_ADDR x, uint32_t v = next()) {
#ifdef __x86_64__
  alignas(64) uint32_t out[16];
  _mm512_store_si512(out, _mm512_set1_epi32(v + 3));
  mark(x, __builtin_cpu_supports("avx512f") ? out[5] : 4);
#else
  mark(x, 4);
#endif
}
__global__ __aicore__ void handled(GM_ADDR x, uint32_t v = next()) noexcept try {
  throw v;
} catch (uint32_t thrown) {
  mark(x, thrown + 40);
}
__global__ __aicore__ void counted(GM_ADDR x, uint32_t v = next()) { mark(x, ++v + sizeof(__func__)); }
extern "C" __global__ __aicore__ void compares(GM_ADDR x, std::array<uint32_t, (kA >= 2 ? 2 : 1)> a = {4, 5},
                                               uint32_t v = next()) {
  mark(x, a[1] + v);
}

__global__ __aicore__ void called_by_a_core(GM_ADDR x, uint32_t v = nine + sizeof(calls)) { mark(x, v); }
__global__ __aicore__ void calls_another(GM_ADDR x, uint32_t v = next()) { if (v == 1) called_by_a_core(x); }

extern "C" {
void at(uint32_t s) { calls = 0, setting = s; }
int called() { return calls; }
#define GO(name, ...) void go_##name(void* s, uint8_t* x) { __VA_ARGS__<<<4, nullptr, s>>>(x); setting = 9; }
GO(of_a_call, of_a_call)
GO(of_a_variable, of_a_variable)
GO(of_two, of_two)
GO(literals, literals)
GO(of_a_template, of_a_template<uint16_t>)
GO(commas, commas)
GO(declared, declared)
GO(member, n::Of::member)
GO(less, less)
GO(converted, converted)
GO(arrays, arrays)
GO(taken, taken)
GO(calls_another, calls_another)
GO(constant, constant)
GO(braces, braces)
GO(references, references)
GO(lines, lines)
GO(letters, letters)
GO(types, types)
GO(defined, Outside::defined)
GO(calls_refers, calls_refers)
GO(calls_others, calls_others)
GO(jumps, jumps)
GO(of_a_kernel, of_a_kernel)
GO(wide, wide)
GO(handled, handled)
GO(counted, counted)
GO(compares, compares)
void go_tuples(void* s, uint8_t* x) { tuples<int, short><<<4, nullptr, s>>>(x, std::tuple<int, short>(1, 2), 0); }
uint32_t go_from_c(void* s, uint8_t* x) { return aclrtlaunch_from_c(4, s, x, Copied()); }
void go_sync(void* s, uint8_t* x) { sync<<<4, nullptr, s>>>(x, 7); }
void go_null(void* s, uint8_t* x) {
  void (*none)(GM_ADDR) = nullptr;
  try {
    none<<<4, nullptr, s>>>(x);
  } catch (const std::runtime_error& e) {
    *x = std::string(e.what()) == "none<<<>>>: the kernel's pointer is null";
  }
  try {
    thrown<<<4, nullptr, s>>>(x);
  } catch (const std::out_of_range& e) {
    *x += std::string(e.what()) == "my own";
  }
  try {
    const Copied copied;
    no_copy<<<4, nullptr, s>>>(x, copied);
  } catch (const std::out_of_range& e) {
    *x += std::string(e.what()) == "copy";
  }
  uint32_t v = 0;
  try {
    refers_to_all<<<4, nullptr, s>>>(x, v);
  } catch (const std::invalid_argument& e) {
    *x += std::string(e.what()).starts_with("refers_to_all<<<>>>: a parameter is a reference or has no copy");
  }
}
}
"""
WANTED = {"of_a_call": 1, "of_a_variable": 5, "of_two": 550, "literals": 15, "of_a_template": 22, "commas": 31}
WANTED |= {"declared": 1, "member": 1, "constant": 1, "less": 5, "converted": 25, "arrays": 9, "taken": 19}
WANTED |= {"calls_another": 13}
WANTED |= {"braces": 12, "references": 10, "letters": 199, "types": 18, "defined": 1, "sync": 7}
WANTED |= {
    "calls_refers": 25,
    "calls_others": 858,
    "tuples": 4,
    "jumps": 8,
    "of_a_kernel": 21,
    "wide": 4,
    "handled": 41,
    "counted": 10,
    "compares": 6,
}
WANTED["lines"] = SOURCE.split("\n").index("GO(lines, lines)") + 1
CALLS = {"of_a_variable": 0, "literals": 0, "commas": 0, "of_two": 2, "converted": 0, "arrays": 0}
CALLS |= {"lines": 0, "letters": 0, "sync": 0, "tuples": 0}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("defaults")
    (folder / "d.asc").write_text(SOURCE)
    return C.CDLL(str(build(folder / "d.asc", folder)))


@pytest.mark.parametrize("name", WANTED)
def test_a_launch_evaluates_what_it_leaves_out(library, device, name):
    """Not each core, and not when it runs: the setting has changed by then."""
    pointer = device.put(np.zeros(4, np.uint32))
    for _ in range(2):
        library.at(5)
        getattr(library, f"go_{name}")(C.c_void_p(device.stream), C.c_void_p(pointer))
        assert device.finish() == ""
        assert device.get(pointer, np.zeros(4, np.uint32)).tolist() == [WANTED[name]] * 4
        assert library.called() == CALLS.get(name, 1)
    device.acl.aclrtFree(pointer)


def test_a_pointer_that_is_null_is_refused_at_its_launch(library, device):
    said = C.create_string_buffer(1)
    library.go_null(C.c_void_p(device.stream), said)
    assert said.raw == b"\4"  # what a default argument or a copy throws is its own, too


def test_c_is_told_by_a_status_what_a_copy_throws(library, device):
    assert library.go_from_c(C.c_void_p(device.stream), None) == 100000
    device.acl.aclGetRecentErrMsg.restype = C.c_char_p
    assert device.acl.aclGetRecentErrMsg() == b"from_c: copy"


def test_a_default_that_does_not_compile_is_g_plus_plus_own_error(tmp_path):
    (tmp_path / "d.asc").write_text(SOURCE.replace("v = setting", "v = settling"))
    done = bisheng(*FLAGS, tmp_path / "d.asc", "-o", tmp_path / "libd.so", env={"ANYCEND_CXX": GCC})
    said = done.stderr
    line = next(n for n, text in enumerate(SOURCE.splitlines(), 1) if "v = setting" in text)
    assert done.returncode and re.search(rf"d\.asc:{line}:\d+: error: .settling. was not declared", said)
    assert said.count(" error: ") == 1, said


TWO = """#include "kernel_operator.h"
static uint32_t setting() { return N; }
struct S {
  static __global__ __aicore__ void member(GM_ADDR x, uint32_t v = setting()) {
    AscendC::GlobalTensor<uint32_t> g;
    g.SetGlobalBuffer((__gm__ uint32_t*)x);
    g.SetValue(AscendC::GetBlockIdx(), v);
  }
};
extern "C" __attribute__((visibility("hidden"))) void go(void* s, uint8_t* x) { S::member<<<4, nullptr, s>>>(x); }
extern "C" void NAMED(void* s, uint8_t* x) { go(s, x); }
"""


def test_two_libraries_with_a_kernel_of_one_name_have_their_own(device, tmp_path):
    pointer = device.put(np.zeros(4, np.uint32))
    for number in (1, 2):
        (tmp_path / f"k{number}.asc").write_text(TWO)
        given = (f"-DN={number}", f"-DNAMED=go{number}")
        library = C.CDLL(str(build(tmp_path / f"k{number}.asc", tmp_path, *given)), mode=C.RTLD_GLOBAL)
        getattr(library, f"go{number}")(C.c_void_p(device.stream), C.c_void_p(pointer))
        assert device.finish() == ""
        assert device.get(pointer, np.zeros(4, np.uint32)).tolist() == [number] * 4
    device.acl.aclrtFree(pointer)
