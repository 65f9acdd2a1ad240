"""What stands in a source as a kernel or a launch is found as the compiler sees it: behind macros, #if and comments."""

from __future__ import annotations

import ctypes as C
import re

import numpy as np
import pytest

from tests.ascendc.kit import FLAGS, Kernels, bisheng, build

HEAD = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
KERNELS = "k in_namespace in_block defaults names attributes by_chip chosen".split()
FORMS = (
    "macro pasted shift ternary shift_right two_names other_name greater shifted lambda comments inside by_default "
    "deduced deduced_rest overloaded optional specialized unspecialized pointer member of_class nested in_template "
    "of_any signs raw_string"
).split()
WANTED = [9] * 8 + [0] * 8  # eight blocks, no more


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_kernel_has_its_aclrtlaunch(compiled, kernel):
    got = compiled("launches").launch(kernel, 8, np.zeros(16, np.uint32), scalars=(C.c_uint32(9),))[0]
    assert got.tolist() == WANTED


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_a_launch_runs_its_blocks(compiled, device, form):
    pointer = device.put(np.zeros(16, np.uint32))
    launch = getattr(compiled("launches").library, f"form_{form}")
    launch(C.c_void_p(device.stream), C.c_void_p(pointer), C.c_uint32(9))
    assert device.finish() == ""
    got = device.get(pointer, np.zeros(16, np.uint32))
    device.acl.aclrtFree(pointer)
    assert got.tolist() == WANTED


def test_what_is_left_out_has_none(compiled):
    for name in ("left_out", "fake"):
        assert not hasattr(compiled("launches").library, f"aclrtlaunch_{name}")


def test_kernels_of_headers_and_sources_with_headers_of_one_name(tmp_path, device):
    """Each source includes the header of its own folder; a kernel and a launch that stand in a header count."""
    for folder, value in (("a", 2), ("b", 3)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "common.h").write_text(
            f"#define VALUE {value}\n"
            f'extern "C" __global__ __aicore__ void k{folder}(GM_ADDR x) {{ *(__gm__ int*)x = VALUE; }}\n'
            f'extern "C" void go_{folder}(void* s, uint8_t* x) {{ k{folder}<<<1, nullptr, s>>>(x); }}\n'
        )
        (tmp_path / folder / f"k{folder}.asc").write_text(HEAD + '#include "common.h"\n')
    library = tmp_path / "libk.so"
    done = bisheng("-O0", "-shared", f"--launch-headers={tmp_path}", *sorted(tmp_path.rglob("*.asc")), "-o", library)
    assert done.returncode == 0, done.stderr
    kernels = Kernels(library, device)
    for folder, value in (("a", 2), ("b", 3)):
        assert kernels.launch(f"k{folder}", 1, np.zeros(2, np.int32))[0].tolist() == [value, 0]
        assert (
            f"aclrtlaunch_k{folder}(uint32_t, aclrtStream, void* x);"
            in (tmp_path / f"aclrtlaunch_k{folder}.h").read_text()
        )
        assert hasattr(kernels.library, f"go_{folder}")


OTHER_NAMES = """
__aicore__ inline void mark(GM_ADDR x) {
  GlobalTensor<uint32_t> g;
  g.SetGlobalBuffer((__gm__ uint32_t*)x);
  if ASCEND_IS_AIV g.SetValue(GetBlockIdx(), 1 + GetSubBlockNum());
}
extern "C" __mix__(1, 2) __global__ __aicore__ void mix(GM_ADDR x) { mark(x); }
extern "C" __vector__ __global__ __aicore__ void vec(GM_ADDR x) { mark(x); }
__vector__ __global__ __aicore__ void two(GM_ADDR x) { mark(x); }
__mix__(1, 2) __global__ __aicore__ void two(GM_ADDR x, uint32_t) { mark(x); }
void two(float) {}
namespace a { __mix__(1, 2) __global__ __aicore__ void vec(GM_ADDR x) { mark(x); } }
template <int N> __vector__ __global__ __aicore__ void some(GM_ADDR x) { mark(x); }
template <int N> __vector__ __global__ __aicore__ void some(GM_ADDR x, int) { mark(x); }
template <> __mix__(1, 2) __global__ __aicore__ void some<3>(GM_ADDR x) { mark(x); }
template <class T> __mix__(1, 2) __global__ __aicore__ void hidden(T x) { mark((GM_ADDR)x); }
__mix__(1, 2) __global__ __aicore__ void tried(GM_ADDR x) try { mark(x); } catch (const int&) {} catch (...) { throw; }
__mix__(1, 2) __global__ __aicore__ void quiet(GM_ADDR x) noexcept(noexcept(mark(nullptr)) || true) { mark(x); }
extern "C" __mix__(1, 2) __global__ __aicore__ void cold [[gnu::cold]] (GM_ADDR x) { mark(x); }
template <int N> __mix__(1, 1) __global__ __aicore__ void ratio(GM_ADDR x) { mark(x); }
namespace a { template <int N> __mix__(1, 2) __global__ __aicore__ void ratio(GM_ADDR x) { mark(x); } }
using F = void (*)(GM_ADDR);
const F table[] = {mix, vec};
template <auto K> void run(void* s, uint8_t* x) { K<<<2, nullptr, s>>>(x); }
extern "C" void mixed_parenthesis(void* s, uint8_t* x) { if (x) (mix)<<<2, nullptr, s>>>(x); }
extern "C" void mixed_void(void* s, uint8_t* x) { [[likely]] (void)(*table[0])<<<2, nullptr, s>>>(x); }
extern "C" void mixed_pointer(void* s, uint8_t* x) { const F p = mix; p<<<2, nullptr, s>>>(x); }
extern "C" void mixed_table(void* s, uint8_t* x) { for (int i = 0; i < 1; ++i) table[i]<<<2, nullptr, s>>>(x); }
extern "C" void mixed_argument(void* s, uint8_t* x) { run<mix>(s, x); }
extern "C" void mixed_overload(void* s, uint8_t* x) {
  static_cast<void (*)(GM_ADDR, uint32_t)>(two)<<<2, nullptr, s>>>(x, 1);
}
extern "C" void mixed_using(void* s, uint8_t* x) { using a::vec; vec<<<2, nullptr, s>>>(x); }
extern "C" void mixed_special(void* s, uint8_t* x) { const F p = some<3>; p<<<2, nullptr, s>>>(x); }
extern "C" void mixed_try(void* s, uint8_t* x) { const F p = tried; p<<<2, nullptr, s>>>(x); }
extern "C" void mixed_noexcept(void* s, uint8_t* x) { const F p = quiet; p<<<2, nullptr, s>>>(x); }
extern "C" void mixed_attribute(void* s, uint8_t* x) { cold<<<2, nullptr, s>>>(x); }
extern "C" void plain_overload(void* s, uint8_t* x) { const F p = two; p<<<2, nullptr, s>>>(x); }
extern "C" void mixed_deduced(void* s, uint8_t* x) { two<<<2, nullptr, s>>>(x, 1); }
extern "C" void plain_hiding(void* s, uint8_t* x) { const F mix = vec; mix<<<2, nullptr, s>>>(x); }
extern "C" void plain_table(void* s, uint8_t* x) { if constexpr (true) (table[1])<<<2, nullptr, s>>>(x); }
extern "C" void plain_nested(void* s, uint8_t* x) {
  const std::tuple<std::vector<std::vector<void*>>> t{{{s}}};
  vec<<<2, nullptr, std::get<std::vector<std::vector<void*>>>(t)[0][0]>>>(x);
}
extern "C" void mixed_template(void* s, uint8_t* x) { const F p = hidden<GM_ADDR>; p<<<2, nullptr, s>>>(x); }
extern "C" void mixed_ratio(void* s, uint8_t* x) { using a::ratio; ratio<3><<<2, nullptr, s>>>(x); }
extern "C" const char* none(void* s, uint8_t* x) {
  static std::string said;
  const F p = [](GM_ADDR) {};
  try { p<<<2, nullptr, s>>>(x); } catch (const std::exception& e) { said = e.what(); }
  return said.c_str();
}
"""


def test_a_kernel_runs_on_its_cores_by_whatever_name_it_is_launched(tmp_path, device):
    source = tmp_path / "names.asc"
    source.write_text(f"#include <tuple>\n#include <vector>\n{HEAD}{OTHER_NAMES}")
    library = C.CDLL(str(build(source, tmp_path)))

    def launched(name):
        pointer = device.put(np.zeros(4, np.uint32))
        getattr(library, name)(C.c_void_p(device.stream), C.c_void_p(pointer))
        error, marks = device.finish(), device.get(pointer, np.zeros(4, np.uint32)).tolist()
        device.acl.aclrtFree(pointer)
        return error or marks

    # As vector cores say it: each of the two blocks is two of them, beside a cube core, or one alone.
    names = re.findall(r"void (mixed_\w+|plain_\w+)\(", OTHER_NAMES)
    assert len(names) == OTHER_NAMES.count("void mixed_") + OTHER_NAMES.count("void plain_") > 0
    assert {n: launched(n) for n in names} == {n: [3] * 4 if n.startswith("mixed") else [2, 2, 0, 0] for n in names}
    library.none.restype = C.c_char_p
    assert b"p<<<>>>: what is launched is no __global__ function that bisheng has compiled" in library.none(
        C.c_void_p(device.stream), None
    )


def test_libraries_of_one_scope_know_their_own_kernels(tmp_path, device):
    found = []
    for number, cores in enumerate(("__vector__", "__mix__(1, 2)")):
        source = tmp_path / f"library{number}.asc"
        source.write_text(
            f'{HEAD}extern "C" {cores} __global__ __aicore__ void same(GM_ADDR x) {{ GlobalTensor<uint32_t> g;\n'
            "g.SetGlobalBuffer((__gm__ uint32_t*)x); if ASCEND_IS_AIV g.SetValue(GetBlockIdx(), 7); }\n"
            f'extern "C" void go{number}(void* s, uint8_t* x) {{ void (*k)(GM_ADDR) = same;\n'
            "k<<<1, nullptr, s>>>(x); }\n"
            f'extern "C" void by_function{number}(void* s, uint8_t* x) {{ ACLRT_LAUNCH_KERNEL(same)(1, s, x); }}\n'
        )
        library = C.CDLL(str(build(source, tmp_path)), C.RTLD_GLOBAL)
        for way in ("go", "by_function"):
            pointer = device.put(np.zeros(4, np.uint32))
            library[f"{way}{number}"](C.c_void_p(device.stream), C.c_void_p(pointer))
            found.append(device.finish() or device.get(pointer, np.zeros(4, np.uint32)).tolist())
            device.acl.aclrtFree(pointer)
    assert found == [[7, 0, 0, 0]] * 2 + [[7, 7, 0, 0]] * 2


def test_an_inline_kernel_that_states_nothing_is_launched_as_the_launchs_source_says(tmp_path, device):
    (tmp_path / "k.h").write_text(
        f"#pragma once\n{HEAD}inline __global__ __aicore__ void k(GM_ADDR x) {{ if ASCEND_IS_AIC {{ return; }}\n"
        "GlobalTensor<uint32_t> g; g.SetGlobalBuffer((__gm__ uint32_t*)x); g.SetValue(GetBlockIdx(), 7); }\n"
    )
    for name, more in (("plain", ""), ("cube", "inline int Mmad;\n")):  # which may use the cube, and means either core
        (tmp_path / f"{name}.asc").write_text(
            f'#include "k.h"\n{more}extern "C" void {name}(void* s, uint8_t* x) {{ k<<<1, nullptr, s>>>(x); }}\n'
        )
    sources = [tmp_path / "plain.asc", tmp_path / "cube.asc"]
    for number, order in enumerate((sources, sources[::-1])):
        library = tmp_path / f"lib{number}.so"
        done = bisheng("-x", "asc", *FLAGS, *order, "-o", library)
        assert done.returncode == 0, done.stderr
        pointer = device.put(np.zeros(4, np.uint32))
        C.CDLL(str(library)).plain(C.c_void_p(device.stream), C.c_void_p(pointer))
        assert device.finish() == "" and device.get(pointer, np.zeros(4, np.uint32)).tolist() == [7, 0, 0, 0]
        device.acl.aclrtFree(pointer)


@pytest.mark.parametrize("name", ["poll", "send", "aclrtFree"])
def test_a_kernel_may_be_called_like_a_function_that_is_loaded(tmp_path, device, name):
    source = tmp_path / "named.asc"
    source.write_text(
        f'{HEAD}extern "C" __global__ __aicore__ void {name}(GM_ADDR x) {{ GlobalTensor<uint32_t> g;\n'
        "g.SetGlobalBuffer((__gm__ uint32_t*)x); g.SetValue(GetBlockIdx(), 7); }\n"
        f'extern "C" void go(void* s, uint8_t* x) {{ {name}<<<2, nullptr, s>>>(x); }}\n'
    )
    kernels = Kernels(build(source, tmp_path), device)
    assert kernels.launch(name, 2, np.zeros(4, np.uint32))[0].tolist() == [7, 7, 0, 0]
    pointer = device.put(np.zeros(4, np.uint32))
    kernels.library.go(C.c_void_p(device.stream), C.c_void_p(pointer))
    assert device.finish() == "" and device.get(pointer, np.zeros(4, np.uint32)).tolist() == [7, 7, 0, 0]
    device.acl.aclrtFree(pointer)


@pytest.mark.parametrize("more", ["", ", int n = 3"])
def test_a_parameter_that_is_a_reference_is_refused(tmp_path, more):
    (tmp_path / "k.asc").write_text(
        f"{HEAD}struct P {{ int a; }};\n__global__ __aicore__ void k(const P& p{more}) {{}}\n"
        "void f(void* s) { k<<<1, nullptr, s>>>(P{1}); }\n"
    )
    done = bisheng("-fsyntax-only", tmp_path / "k.asc")
    assert done.returncode == 1 and "a kernel's parameter is a reference, which no launch can pass" in done.stderr
