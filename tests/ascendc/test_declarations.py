"""Kernels are found, with their cores, in whatever valid form they are declared, and so are launches."""

from __future__ import annotations

import ctypes as C
import re
import subprocess

import numpy as np
import pytest

from tests.ascendc.kit import FLAGS, GCC, Kernels, bisheng, build

HEAD = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
MARK = """
__aicore__ inline void mark(GM_ADDR x) {
  GlobalTensor<uint32_t> g;
  g.SetGlobalBuffer((__gm__ uint32_t*)x);
  if ASCEND_IS_AIV g.SetValue(GetBlockIdx(), 1 + GetSubBlockNum());
}
"""
MIXED, PLAIN = [3] * 4, [2, 2, 0, 0]  # as vector cores say it: each of two blocks is two of them, or one alone


@pytest.fixture
def launched(device):
    def launched(library, name):
        pointer = device.put(np.zeros(4, np.uint32))
        getattr(library, name)(C.c_void_p(device.stream), C.c_void_p(pointer))
        error, marks = device.finish(), device.get(pointer, np.zeros(4, np.uint32)).tolist()
        device.acl.aclrtFree(pointer)
        return error or marks

    return launched


FORMS = """
#define GO extern "C" void
[[deprecated("use the __mix__(1, 2) one")]] __global__ __aicore__ void old(GM_ADDR x) { mark(x); }
[[maybe_unused, gnu::noinline]] __mix__(1, 2) __global__ __attribute__((noinline, cold)) __aicore__ [[gnu::hot]] void
attributes [[gnu::aligned(32)]] (GM_ADDR x, [[maybe_unused]] int a __attribute__((unused)) = 3) { mark(x); }
namespace n { namespace m { __global__ __aicore__ void qualified(GM_ADDR x); } }
__mix__(1, 2) __global__ __aicore__ void n::m::qualified(GM_ADDR x) { mark(x); }
__mix__(1, 2) __global__ __aicore__ auto trailing(GM_ADDR x) -> void { mark(x); }
template <class T> requires requires (T t) { t + t; } __mix__(1, 2) __global__ __aicore__
void before(GM_ADDR x, T) { mark(x); }
template <class T> __mix__(1, 2) __global__ __aicore__ void behind(GM_ADDR x, T) requires requires (T t) { t + t; } {
  mark(x);
}
template <class T> __global__ __aicore__ void behind_stated(GM_ADDR x, T) requires requires (T t) { t + t; } &&
    (sizeof(T) == 4) { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2); mark(x); }
template <class T> __global__ __aicore__ void behind_size(GM_ADDR x, T) requires (sizeof(T) == 4) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  mark(x);
}
template <int N = int{3}> __mix__(1, 2) __global__ __aicore__ void braces(GM_ADDR x) { if (N == 3) mark(x); }
__global__ __aicore__ void scoped(GM_ADDR x) {
  KERNEL_TASK_TYPE_DEFAULT(::KernelMetaType::KERNEL_TYPE_MIX_AIC_1_2);
  mark(x);
}
constexpr bool kMixed = true;
__global__ __aicore__ void chosen(GM_ADDR x) {
  KERNEL_TASK_TYPE_DEFAULT(kMixed ? KernelMetaType::KERNEL_TYPE_MIX_AIC_1_2 : KERNEL_TYPE_AIV_ONLY);
  mark(x);
}
template <class T> __vector__ __global__ __aicore__ void special(GM_ADDR x, T) { mark(x); }
template <> __mix__(1, 2) __global__ __aicore__ void special(GM_ADDR x, float) { mark(x); }
__vector__ __global__ __aicore__ void typed(GM_ADDR x, int) { mark(x); }
__mix__(1, 2) __global__ __aicore__ void typed(GM_ADDR x, float) { mark(x); }
template <KernelMetaType T> __global__ __aicore__ void by_argument(GM_ADDR x) { KERNEL_TASK_TYPE_DEFAULT(T); mark(x); }
template <int N> __global__ __aicore__ void outer(GM_ADDR x) { mark(x); }
namespace a {
template <int N> __mix__(1, 2) __global__ __aicore__ void outer(GM_ADDR x) { mark(x); }
GO plain_outer(void* s, uint8_t* x) { ::outer<3><<<2, nullptr, s>>>(x); }
template <int N> __global__ __aicore__ void used(GM_ADDR x) { mark(x); }
}
template <int N> __mix__(1, 2) __global__ __aicore__ void used(GM_ADDR x) { mark(x); }
template <class T> struct Member {
  static __global__ __aicore__ void run(GM_ADDR x) { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2); mark(x); }
};
class Hidden {
  static __mix__((1), (2)) __global__ __aicore__ void run(GM_ADDR x) { mark(x); }
 public:
  static constexpr auto pointer = &run;
};
__mix__(1, 2) __global__ __aicore__ void digraphs(GM_ADDR x) <% mark(x); %>
template <int N> __mix__(1, 2) __global__ __aicore__ void shifted(GM_ADDR x) { if (N == 8) mark(x); }
__vector__ __global__ __aicore__ void letter(GM_ADDR x, char) { mark(x); }
[[bisheng::core_ratio(1, 2)]] __global__ __aicore__ void ratio(GM_ADDR x) { mark(x); }
template <int N> [[maybe_unused, bisheng :: core_ratio(1, 2)]] __global__ __schedmode__(1) __aicore__
void ratio_listed(GM_ADDR x) { mark(x); }
[[using bisheng: core_ratio(1, 1)]] __global__ __aicore__ void ratio_using(GM_ADDR x) { mark(x); }
extern "C" [[bisheng::core_ratio(0, 1)]] __global__ __aicore__ void ratio_vector(GM_ADDR x) { mark(x); }
[[block_local]] uint32_t local_word;
[[ block_local ]] static LocalTensor<float>* local_pointer;
[[maybe_unused, block_local]] static uint32_t unused;
static [[block_local]] uint32_t last = 3;
[[block_local]] [[maybe_unused]] alignas(64) static uint32_t aligned[2];
__global__ __aicore__ void locals(GM_ADDR x) {
  const uint32_t me = GetBlockIdx();
  local_word = 0, local_pointer = nullptr, last = aligned[1] = me;
  for (int i = 0; i < 1000; ++i) local_word += me + 1, SyncAll();
  if (local_word == 1000 * (me + 1) && last == me && aligned[1] == me && !local_pointer) mark(x);
}
GO mixed_ratio(void* s, uint8_t* x) { ratio<<<2, nullptr, s>>>(x); }
GO mixed_ratio_listed(void* s, uint8_t* x) { ratio_listed<3><<<2, nullptr, s>>>(x); }
extern "C" void by_using(void* s, uint8_t* x) { ratio_using<<<2, nullptr, s>>>(x); }
GO plain_ratio_vector(void* s, uint8_t* x) { auto p = ratio_vector; p<<<2, nullptr, s>>>(x); }
GO plain_locals(void* s, uint8_t* x) { locals<<<2, nullptr, s>>>(x); }
GO plain_string(void* s, uint8_t* x) { old<<<2, nullptr, s>>>(x); }
GO mixed_attributes(void* s, uint8_t* x) { auto p = attributes; if (x) [[likely]] p<<<2, nullptr, s>>>(x, 1); }
GO mixed_qualified(void* s, uint8_t* x) { auto p = n::m::qualified; p<<<2, nullptr, s>>>(x); }
GO mixed_trailing(void* s, uint8_t* x) { auto p = trailing; p<<<2, nullptr, s>>>(x); }
GO mixed_before(void* s, uint8_t* x) { before<<<2, nullptr, s>>>(x, 1); }
GO mixed_behind(void* s, uint8_t* x) { behind<<<2, nullptr, s>>>(x, 1); }
GO mixed_behind_stated(void* s, uint8_t* x) { behind_stated<<<2, nullptr, s>>>(x, 1); }
GO mixed_behind_size(void* s, uint8_t* x) { behind_size<<<2, nullptr, s>>>(x, 1); }
GO mixed_braces(void* s, uint8_t* x) { braces<><<<2, nullptr, s>>>(x); }
GO mixed_scoped(void* s, uint8_t* x) { scoped<<<2, nullptr, s>>>(x); }
GO mixed_chosen(void* s, uint8_t* x) { chosen<<<2, nullptr, s>>>(x); }
GO mixed_special(void* s, uint8_t* x) { special<<<2, nullptr, s>>>(x, 1.0f); }
GO plain_special(void* s, uint8_t* x) { special<<<2, nullptr, s>>>(x, 1); }
GO mixed_overload(void* s, uint8_t* x) { typed<<<2, nullptr, s>>>(x, 1.0f); }
GO plain_overload(void* s, uint8_t* x) { typed<<<2, nullptr, s>>>(x, 1); }
GO mixed_by_argument(void* s, uint8_t* x) { by_argument<KERNEL_TYPE_MIX_AIC_1_2><<<2, nullptr, s>>>(x); }
GO plain_by_argument(void* s, uint8_t* x) { by_argument<KERNEL_TYPE_AIV_ONLY><<<2, nullptr, s>>>(x); }
GO plain_used(void* s, uint8_t* x) { using a::used; used<3><<<2, nullptr, s>>>(x); }
GO mixed_member(void* s, uint8_t* x) { Member<int>::run<<<2, nullptr, s>>>(x); }
GO mixed_member_pointer(void* s, uint8_t* x) { auto p = &Member<int>::run; p<<<2, nullptr, s>>>(x); }
GO mixed_hidden(void* s, uint8_t* x) { Hidden::pointer<<<2, nullptr, s>>>(x); }
GO mixed_digraphs(void* s, uint8_t* x) { digraphs<<<2, nullptr, s>>>(x); }
GO mixed_shifted(void* s, uint8_t* x) { shifted<1 << 3><<<2, nullptr, s>>>(x); }
GO plain_digits(void* s, uint8_t* x) { const float e = .000'1f; letter<<<2, nullptr, s>>>(x, 'c'); (void)e; }
"""


def test_each_form_of_a_kernel_runs_on_its_cores(tmp_path, launched):
    source = tmp_path / "forms.asc"
    source.write_text(HEAD + MARK + FORMS)
    library = C.CDLL(str(build(source, tmp_path, "-Wno-deprecated-declarations", "-Wno-attributes", "-Wno-pragmas")))
    names = re.findall(r"GO (mixed_\w+|plain_\w+)\(", FORMS)
    assert len(names) == FORMS.count("\nGO ")
    assert {n: launched(library, n) for n in names} == {n: MIXED if n[0] == "m" else PLAIN for n in names}
    assert launched(library, "by_using") == [2, 2, 0, 0]  # one vector core a block


def test_kernels_and_launches_of_headers_of_the_system(tmp_path, launched):
    """Whose macros the preprocessor marks one by one; in the source, too."""
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "kernel.h").write_text(
        "#pragma once\n__mix__(1, 2)\n__global__ __aicore__ inline void k(GM_ADDR x) { mark(x); }\n"
    )
    (tmp_path / "system" / "launch.h").write_text(
        "#pragma once\ntemplate <class K> void launch(K k, void* s, uint8_t* x) {\n  k<<<2, nullptr, s>>>(x);\n}\n"
    )
    (tmp_path / "mine.h").write_text("#pragma once\nvoid mine(void* s, uint8_t* x) { k<<<2, NULL, s>>>(x); }\n")
    source = tmp_path / "k.asc"
    source.write_text(
        f'{HEAD}{MARK}#include "kernel.h"\n#include "launch.h"\n#include "mine.h"\n'
        'extern "C" void name(void* s, uint8_t* x) { k<<<2, nullptr, s>>>(x); }\n'
        'extern "C" void header(void* s, uint8_t* x) { launch(k, s, x); }\n'
        'extern "C" void own(void* s, uint8_t* x) { mine(s, x); }\n'
    )
    library = C.CDLL(str(build(source, tmp_path, "-isystem", str(tmp_path / "system"))))
    assert [launched(library, n) for n in ("name", "header", "own")] == [MIXED] * 3


def test_a_type_that_the_kernel_alone_sees_is_refused(tmp_path):
    for kernel, said in {
        "__global__ void k(GM_ADDR x) { constexpr auto t = KERNEL_TYPE_MIX_AIC_1_2; KERNEL_TASK_TYPE_DEFAULT(t); }":
        "KERNEL_TASK_TYPE_DEFAULT(t): t is declared in the kernel's body, where launches do not see it: write",
        "__mix__(2, 1) __global__ void k(GM_ADDR x) {}":
        "__mix__(2, 1): a block has a cube core and 0, 1 or 2 vector cores: __mix__(1, 2)",
    }.items():  # fmt: skip
        (tmp_path / "k.asc").write_text(f"{HEAD}{kernel}\n")
        done = bisheng("-fsyntax-only", tmp_path / "k.asc")
        assert done.returncode == 1 and f"k.asc:3: {said}" in done.stderr


def test_a_declaration_that_says_the_cores_counts_for_its_files_launches(tmp_path, launched):
    (tmp_path / "mark.h").write_text(f"#pragma once\n{HEAD}{MARK}")
    declared = 'extern "C" __mix__(1, 2) __global__ __aicore__ void k(GM_ADDR x);\n'
    (tmp_path / "a.asc").write_text(
        f'#include "mark.h"\n{declared}__mix__(1, 2) __global__ void never(GM_ADDR x);\n'
        "namespace n { __global__ void k(GM_ADDR) {} }\n"
        'extern "C" void name(void* s, uint8_t* x) { k<<<2, nullptr, s>>>(x); }\n'
    )
    (tmp_path / "b.asc").write_text(
        '#include "mark.h"\nextern "C" __global__ __aicore__ void k(GM_ADDR x) { mark(x); }\n'
    )
    sources = [tmp_path / "a.asc", tmp_path / "b.asc"]
    for number, order in enumerate((sources, sources[::-1])):
        library = tmp_path / f"lib{number}.so"
        done = bisheng("-x", "asc", *FLAGS, *order, "-o", library)
        assert done.returncode == 0, done.stderr
        loaded = C.CDLL(str(library))
        assert launched(loaded, "name") == MIXED


def test_a_kernel_of_another_library_tells_its_cores(tmp_path, device):
    source, launch = tmp_path / "far.asc", tmp_path / "near.asc"
    source.write_text(
        f"{HEAD}{MARK}template <int N> __mix__(1, 2) __global__ __aicore__ void far(GM_ADDR x) {{ mark(x); }}\n"
        'extern "C" void* kernel() { return reinterpret_cast<void*>(&far<3>); }\n'
    )
    launch.write_text(
        f'{HEAD}extern "C" void go(void* k, void* s, uint8_t* x) {{\n'
        "  reinterpret_cast<void (*)(GM_ADDR)>(k)<<<2, nullptr, s>>>(x);\n}\n"
    )
    far, near = (C.CDLL(str(build(file, tmp_path))) for file in (source, launch))
    far.kernel.restype = C.c_void_p
    pointer = device.put(np.zeros(4, np.uint32))
    near.go(C.c_void_p(far.kernel()), C.c_void_p(device.stream), C.c_void_p(pointer))
    assert (device.finish(), device.get(pointer, np.zeros(4, np.uint32)).tolist()) == ("", MIXED)
    device.acl.aclrtFree(pointer)


NOEXCEPT = """
__aicore__ inline void error() { TPipe pipe; TBuf<> buffer; pipe.InitBuffer(buffer, 1 << 30); }
extern "C" __global__ __aicore__ void quiet(GM_ADDR x) noexcept { if (x) error(); }
template <int N> __mix__(1, 2) __global__ __aicore__ void silent(GM_ADDR x) noexcept(N > 0) {
  if ASCEND_IS_AIV { if (x) error(); }
}
extern "C" __global__ __aicore__ void caught(GM_ADDR x) noexcept try { if (x) throw 7; } catch (const int&) {}
extern "C" void by_handler(void* s, uint8_t* x) { caught<<<2, nullptr, s>>>(x); }
extern "C" void by_name(void* s, uint8_t* x) { quiet<<<2, nullptr, s>>>(x); }
extern "C" void by_pointer(void* s, uint8_t* x) {
  void (*const p)(GM_ADDR) noexcept = silent<3>;
  p<<<2, nullptr, s>>>(x);
}
"""


def test_an_error_of_a_kernel_that_is_noexcept_is_one_of_the_stream(tmp_path, launched):
    (tmp_path / "k.asc").write_text(HEAD + NOEXCEPT)
    library = C.CDLL(str(build(tmp_path / "k.asc", tmp_path)))
    assert launched(library, "by_handler") == [0] * 4
    # Both blocks fail; the stream keeps whichever was first.
    assert re.search(r"quiet failed on device 0: block [01]: k.asc:4: InitBuffer", launched(library, "by_name"))
    in_core = r"silent failed on device 0: block [01] \(vector core [01]\): k.asc:4: InitBuffer"
    assert re.search(in_core, launched(library, "by_pointer"))


NAMES = "rint frexp sincos nextafter isnan isinf exp10 y1 nan free qsort abort printf expf pow clone".split()
OWN_NAMES = f"""{HEAD}#include <cstdlib>
#define NAMED(name) \\
  extern "C" __global__ __aicore__ void name(const GM_ADDR x, uint32_t n) {{ \\
    GlobalTensor<uint32_t> g; \\
    g.SetGlobalBuffer((__gm__ uint32_t*)x); \\
    g.SetValue(GetBlockIdx(), n); \\
  }} \\
  extern "C" void go_##name(void* s, uint8_t* x) {{ name<<<2, nullptr, s>>>(x, 7); }}
extern "C" __global__ __aicore__ void rint(const GM_ADDR x, uint32_t n);
{" ".join(f"NAMED({name})" for name in NAMES)}
"""


def test_kernels_with_names_of_c_functions(tmp_path, device, launched):
    """Those that a header of the system's declares, which g++ must not have read before."""
    (tmp_path / "k.asc").write_text(OWN_NAMES)
    done = bisheng(*FLAGS, tmp_path / "k.asc", "-o", tmp_path / "libk.so", env={"ANYCEND_CXX": GCC})
    assert done.returncode == 0, done.stderr
    kernels = Kernels(tmp_path / "libk.so", device)
    assert {n: launched(kernels.library, f"go_{n}") for n in NAMES} == dict.fromkeys(NAMES, [7, 7, 0, 0])
    for name in NAMES:
        got = kernels.launch(name, 3, np.zeros(4, np.uint32), scalars=(C.c_uint32(5),))
        assert got[0].tolist() == [5, 5, 5, 0], name


def test_global_memory_is_plain_in_launch_headers(tmp_path):
    (tmp_path / "k.asc").write_text(
        f'{HEAD}extern "C" __global__ void k(const GM_ADDR a, GM_ADDR const b, __gm__ float* const c, '
        "[[maybe_unused]] GM_ADDR d __attribute__((unused)), const volatile uint8_t* __restrict__ e, const int n) {}\n"
    )
    done = bisheng("-fsyntax-only", f"--launch-headers={tmp_path}", tmp_path / "k.asc")
    assert done.returncode == 0, done.stderr
    said = "aclrtlaunch_k(uint32_t, aclrtStream, void* a, void* b, void* c, void* d, void* e, const int n);"
    assert said in (tmp_path / "aclrtlaunch_k.h").read_text()


def test_warnings_are_of_the_users_code_alone(tmp_path):
    """Not of the headers, nor of what is generated; on a line with both as well."""
    kernel = 'extern "C" __global__ __aicore__ void k(const GM_ADDR x, float f)'
    body = "{ GlobalTensor<float> g; g.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x)); g.SetValue(0, f); }"
    wanted = "-Wall -Wextra -pedantic -Wmissing-declarations -Weffc++ -Wuseless-cast -Wredundant-decls -Wshadow".split()
    text = f"{HEAD}{kernel};\n{kernel} {body} inline int mine(int n) {{ return int(n); }}\n"
    (tmp_path / "k.asc").write_text(text)
    done = bisheng("-fsyntax-only", *wanted, tmp_path / "k.asc", env={"ANYCEND_CXX": GCC})
    said = re.findall(r"^\S*?([^/\s]+:\d+):\d+: warning: .*\[(.*)\]", done.stderr, re.MULTILINE)
    assert said == [("k.asc:4", "-Wuseless-cast")], done.stderr


NESTED = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void inner(GM_ADDR x) { *(__gm__ int32_t*)x += 1; }
struct Launches {
  void* stream;
  GM_ADDR x;
  Launches(void* s, GM_ADDR p) : stream(s), x(p) {}
  Launches(const Launches& other) : stream(other.stream), x(other.x) {
    if (x) inner<<<1, nullptr, stream>>>(x);
    x = nullptr;
  }
};
__global__ __aicore__ void outer(GM_ADDR x, Launches) { *(__gm__ int32_t*)x += 100; }
extern "C" void go(void* s, uint8_t* x) {
  Launches given(s, x);
  outer<<<1, nullptr, s>>>(x, given);
}
"""


def test_a_launch_in_the_copy_of_an_argument(tmp_path, device):
    """Which a launch makes, too, when it asks the kernel for its cores."""
    (tmp_path / "k.asc").write_text(NESTED)
    kernels = Kernels(build(tmp_path / "k.asc", tmp_path), device)
    pointer = device.put(np.zeros(8, np.int32))
    kernels.library.go(C.c_void_p(device.stream), C.c_void_p(pointer))
    assert device.finish() == ""
    got = device.get(pointer, np.zeros(8, np.int32))
    device.acl.aclrtFree(pointer)
    assert got[0] == 101


PROGRAM = """#include "kernel_operator.h"
#include <acl/acl.h>
#include <dlfcn.h>
int main(int, char** paths) {
  aclInit(nullptr);
  aclrtSetDevice(0);
  aclrtStream stream;
  aclrtCreateStream(&stream);
  void* x = nullptr;
  aclrtMalloc(&x, 64, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtMemset(x, 64, 0, 64);
  void* library = dlopen(paths[1], RTLD_NOW);
  auto k = reinterpret_cast<void (*)(GM_ADDR)>(dlsym(library, "marked"));
  for (int i = 0; i < 2; ++i) k<<<2, nullptr, stream>>>(static_cast<GM_ADDR>(x));
  int32_t got[4];
  aclrtSynchronizeStream(stream);
  aclrtMemcpy(got, 16, x, 16, ACL_MEMCPY_DEVICE_TO_HOST);
  printf("%d %d %d %d\\n", got[0], got[1], got[2], got[3]);
  return 0;
}
"""


def test_a_program_launches_a_kernel_of_a_library_that_it_opens(tmp_path):
    """They share no variables: a program shows none of its own."""
    kernel = f'{HEAD}{MARK}extern "C" __mix__(1, 2) __global__ __aicore__ void marked(GM_ADDR x) {{ mark(x); }}\n'
    (tmp_path / "k.asc").write_text(kernel)
    (tmp_path / "main.asc").write_text(PROGRAM)
    library = build(tmp_path / "k.asc", tmp_path)
    done = bisheng("-x", "asc", "-O0", tmp_path / "main.asc", "-o", tmp_path / "main", "-ldl")
    assert done.returncode == 0, done.stderr
    done = subprocess.run([tmp_path / "main", library], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("3 3 3 3\n", 0), done.stderr
