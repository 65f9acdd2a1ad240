// Calls an aclnn function with a graph's values: phase one, its workspace, phase two, on the lane's stream. The functions are looked up
// in libopapi.so, which needs torch; their types come from aclnn/api.h, so the compiler checks a row of ops/ge.yaml against the border.
// Who includes it: what is generated from that table, views.cpp, kernels.
#pragma once

#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "aclnn/api.h"
#include "softnpu/graph_engine/handles.h"
#include "softnpu/graph_engine/lane.h"

namespace softnpu::graph {

// Of libopapi.so, beside this library. Throws Error where it is missing or lacks the function.
void* aclnn_symbol(const char* name);

template <typename First, typename Second>
struct Function {
  const char* name;
  First* first;
  Second* second;
};

// ACLNN(aclnnAdd): both phases, looked up once.
#define ACLNN(name)                                                                                                  \
  ([]() -> const auto& {                                                                                             \
    static const softnpu::graph::Function<decltype(name##GetWorkspaceSize), decltype(name)> found{                   \
        #name,                                                                                                       \
        reinterpret_cast<decltype(&name##GetWorkspaceSize)>(softnpu::graph::aclnn_symbol(#name "GetWorkspaceSize")), \
        reinterpret_cast<decltype(&name)>(softnpu::graph::aclnn_symbol(#name))};                                     \
    return found;                                                                                                    \
  }())

template <typename... P, typename Second, typename... A>
void call(Lane& lane, const Function<aclnnStatus(P...), Second>& function, const A&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A) + 2, "an aclnn function with another number of parameters");
  using Parameters = std::tuple<P...>;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  [&]<size_t... I>(std::index_sequence<I...>) {
    // Handles live through both phases.
    std::tuple<Passed<std::tuple_element_t<I, Parameters>>...> passed{std::forward_as_tuple(lane, arguments)...};
    check(function.first(std::get<I>(passed).get()..., &size, &executor), function.name);
    const std::shared_ptr<Block> workspace = size ? lane.allocate(size) : nullptr;
    check(function.second(workspace ? workspace->address : nullptr, size, executor, lane.stream()), function.name);
  }(std::index_sequence_for<A...>());
}

}  // namespace softnpu::graph
