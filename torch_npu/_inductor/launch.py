"""Kernels as tasks of a stream: the C++ around a kernel that Inductor generated, and its compilation.

The compiled function takes the stream's handle and the number of elements before the kernel's own arguments, copies
them all, and puts the kernel on the stream through the capsule torch_npu._C._host_kernel
(torch_npu/csrc/python/host_kernel.cpp). Memory that Python frees meanwhile stays good: the allocator gives it out
again in the stream's order. Who calls it: the modules Inductor writes, also those it finds in its cache on disk.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from torch._inductor.async_compile import get_compile_threads
from torch._inductor.codecache import CppPythonBindingsCodeCache, LambdaFuture
from torch._inductor.utils import clear_on_fresh_cache

MARK = "// A task of an npu stream"
_INCLUDE = "#include <torch/csrc/inductor/cpp_prefix.h>"
# So many elements are computed at the call, as tiny operators are, if the stream is empty: ~20 us at most.
TINY = 8192

# In front of the kernels of a file. An exception must not leave a parallel region: the first one is kept, what is left
# of the loops is skipped, and it is thrown behind the region. What keeps it is a variable of the call: a file may have
# many kernels, which run at once on several streams.
#
# The prefix's flag of a division by zero is one variable of the process (an inline one), which points into the stack of
# whoever set it last. Hidden, it is this file's, where nobody sets it: without it a division throws.
_ERRORS = """
#ifndef NPU_KEPT_ERRORS
#define NPU_KEPT_ERRORS
#include <atomic>
#include <exception>
#include <mutex>
__asm__(".hidden inductor_cpu_integer_div_error_flag");
[[gnu::used]] static const auto* const npu_hidden = &inductor_cpu_integer_div_error_flag;  // hidden, it has to be there
struct NpuErrors {
    std::mutex mutex;
    std::exception_ptr first;
    std::atomic<bool> any{false};
    void keep() {
        const std::lock_guard<std::mutex> guard(mutex);
        if (!first) first = std::current_exception();
        any.store(true, std::memory_order_relaxed);
    }
    void rethrow() const {
        if (first) std::rethrow_exception(first);
    }
};
#endif
"""
# How kernels read and write a tensor of bool as a mask. PyTorch's way is a jump for each number that is read, which
# nobody can predict, and 64 numbers computed for each 16 that are written.
_MASKS = """
#ifndef NPU_MASKS
#define NPU_MASKS
template <class Mask>
struct NpuMaskOf;
template <class T, int N>
struct NpuMaskOf<at::vec::VecMask<T, N>> {
    using Vector = at::vec::VectorizedN<T, N>;
    using Lane = at::vec::int_same_size_t<T>;
};
template <class Mask>
inline __attribute__((always_inline)) Mask npu_mask(const bool* from, int64_t count) {
    using Of = NpuMaskOf<Mask>;
    const auto* const bytes = reinterpret_cast<const signed char*>(from);
    __at_align__ typename Of::Lane lanes[Mask::size()] = {};
    for (int64_t i = 0; i < count; ++i) lanes[i] = -static_cast<typename Of::Lane>(bytes[i] != 0);
    return Mask(Of::Vector::loadu(lanes));
}
template <class Values>
inline void npu_store_mask(const Values& values, bool* to, int64_t count) {
    values.store(to, count);
}
template <class T, int N>
inline __attribute__((always_inline)) void npu_store_mask(const at::vec::VecMask<T, N>& mask, bool* to, int64_t count) {
    using Of = NpuMaskOf<at::vec::VecMask<T, N>>;
    const typename Of::Vector vector = mask;
    __at_align__ typename Of::Lane lanes[at::vec::VecMask<T, N>::size()];
    vector.store(lanes);
    // A scatter asks for four times as many as it reads, as if bools were stored in vectors of bytes.
    const int64_t stored = std::min<int64_t>(count, at::vec::VecMask<T, N>::size());
    for (int64_t i = 0; i < stored; ++i) to[i] = lanes[i] != 0;
}
#endif
"""
# How a kernel asks for that flag, and gives it back.
_FLAG = "inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;"
_NO_FLAG = "inductor_cpu_integer_div_error_flag = nullptr;"
# What throws in a loop's body.
_THROWS = re.compile(r"TORCH_CHECK|_integral\(|throw")

# A kernel with its arguments, copied. `ByValue` says of each argument: is it a number in the memory of the CPU?
TASK = """
#include <cstdio>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

template <class ByValue, class... P>
struct NpuTask;
template <bool... by_value, class... P>
struct NpuTask<std::integer_sequence<bool, by_value...>, P...> {
    static constexpr bool numbers_by_value[] = {by_value..., false};

    void (*kernel)(P...);
    std::tuple<P...> args;
    alignas(16) char numbers[(by_value || ...) ? sizeof...(P) : 1][16];  // what the arguments by value point to

    template <size_t... I>
    void take_numbers(std::index_sequence<I...>) {
        (take_number<I>(), ...);
    }
    template <size_t I>
    void take_number() {
        if constexpr (numbers_by_value[I]) {
            auto& arg = std::get<I>(args);
            static_assert(sizeof *arg <= sizeof numbers[I]);
            std::memcpy(numbers[I], arg, sizeof *arg);
            arg = reinterpret_cast<decltype(arg + 0)>(numbers[I]);
        }
    }

    static int run(void* state, char* message, size_t room) {
        NpuTask& task = *static_cast<NpuTask*>(state);
        try {
            std::apply(task.kernel, task.args);
            return 0;
        } catch (const std::exception& error) {
            const std::string text = error.what();
            std::snprintf(message, room, "%s", text.substr(0, text.find('\\n')).c_str());
        } catch (...) {
            std::snprintf(message, room, "unknown error");
        }
        return 1;
    }
    static void drop(void* state) { delete static_cast<NpuTask*>(state); }
};
template <class ByValue, class... P, class... A>
static NpuTask<ByValue, P...>* npu_task(void (*kernel)(P...), A... args) {
    auto* const task = new NpuTask<ByValue, P...>{kernel, std::tuple<P...>(args...)};
    task->take_numbers(std::index_sequence_for<P...>());
    return task;
}
"""

# In front of the functions Python calls. Braces are doubled for str.format.
_LAUNCH = (
    TASK.replace("{", "{{").replace("}", "}}")
    + """
using NpuLaunch = int (*)(uintptr_t, int (*)(void*, char*, size_t), void (*)(void*), void*, const char*, int);

template <class... P, class... A>
static PyObject* npu_launch(void (*kernel)(P...), uintptr_t stream, int64_t work, A... args) {{
    static const auto launch =
        reinterpret_cast<NpuLaunch>(PyCapsule_Import("torch_npu._C._host_kernel", 0));
    if (launch == nullptr) return nullptr;
    using Task = NpuTask<npu_by_value, P...>;
    const int cost = npu_wide ? 2 : work <= TINY ? 0 : 1;
    Task* const task = npu_task<npu_by_value>(kernel, args...);
    if (launch(stream, Task::run, Task::drop, task, "torch.compile kernel", cost) != 0) return nullptr;
    Py_RETURN_NONE;
}}
""".replace("TINY", str(TINY))
)


def _contain_errors(source: str) -> str:
    """Puts the body of each construct that threads share into a try block."""
    lines, out, i = source.split("\n"), [], 0
    while i < len(lines):
        out.append(lines[i])
        i += 1
        if not out[-1].lstrip().startswith(("#pragma omp for", "#pragma omp single")):
            continue
        collapsed = re.search(r"collapse\((\d+)\)", out[-1])
        depth = int(collapsed[1]) if collapsed else 0  # loops that belong to the construct, perhaps each in a block
        while True:
            while lines[i].lstrip().startswith("for("):
                out.append(lines[i])
                depth -= 1
                i += 1
            if depth <= 0 or not lines[i + 1].lstrip().startswith("for("):
                break
            out.append(lines[i])
            i += 1
        opening = lines[i]
        if opening.strip() != "{":
            raise AssertionError(f"torch_npu._inductor: a parallel loop without a block:\n{source}")
        end = lines.index(opening.replace("{", "}"), i)
        body = lines[i + 1 : end]
        unless = "if (!npu_errors.any.load(std::memory_order_relaxed)) " if any(map(_THROWS.search, body)) else ""
        out += [opening, f"try {{ {unless}{{", *body, "}} catch (...) { npu_errors.keep(); }", lines[end]]
        i = end + 1
    return "\n".join(out)


def is_wide(source: str) -> bool:
    """Does a generated kernel use several threads?"""
    return "#pragma omp parallel" in source


def asks_for_flag(source: str) -> bool:
    """Is it a kernel as the generator writes it, with the flag of a division by zero?"""
    return _FLAG in source


def by_value_type(by_value: Sequence[bool]) -> str:
    return f"std::integer_sequence<bool{''.join(', ' + str(number).lower() for number in by_value)}>"


def kernel_source(source: str, more: str = "") -> str:
    """A generated kernel's C++, made ready to run as a task: its errors are thrown where it ends. `more` goes to the
    declarations in front of it."""
    if source.count(_FLAG) != 1 or source.count(_NO_FLAG) != 1:
        raise AssertionError(f"torch_npu._inductor: a kernel without {_FLAG}:\n{source}")
    wide = is_wide(source)
    if wide:
        source = _contain_errors(source)
    source = source.replace(_FLAG, "NpuErrors npu_errors;" if wide else "")
    source = source.replace(_NO_FLAG, "npu_errors.rethrow();" if wide else "")
    if _INCLUDE not in source:
        raise AssertionError(f"torch_npu._inductor: a kernel without {_INCLUDE}:\n{source}")
    masks = _MASKS if "npu_mask<" in source or "npu_store_mask(" in source else ""
    return source.replace(_INCLUDE, _INCLUDE + _ERRORS + masks + more, 1)


def task_source(source: str, by_value: Sequence[bool]) -> str:
    """The same for a module of its own, which Python calls. `by_value`: for each argument, is it a number in the memory
    of the CPU?"""
    wide = str(is_wide(source)).lower()
    more = (
        f"{MARK}: {wide}\nstatic constexpr bool npu_wide = {wide};\nusing npu_by_value = {by_value_type(by_value)};\n"
    )
    return kernel_source(source, more)


@clear_on_fresh_cache
class NpuKernelCache(CppPythonBindingsCodeCache):
    cache: dict[str, Any] = {}
    cache_clear = staticmethod(cache.clear)
    call_entry_function = "return npu_launch(kernel, {});"
    extra_parse_arg = _LAUNCH


def compile_kernel(async_compile: Any, argtypes: list[str], source: str) -> Callable[..., None] | LambdaFuture:
    """Compiles a kernel, in the background if Inductor has processes for it: f(stream, elements, *arguments)."""
    argtypes = ["uintptr_t", "int64_t", *argtypes]
    if get_compile_threads() <= 1:
        return NpuKernelCache.load_pybinding(argtypes, source)
    return LambdaFuture(NpuKernelCache.load_pybinding_async(argtypes, source, submit_fn=async_compile.submit))
