// Host side: puts a kernel on a stream. `bisheng` writes k<<<blocks, ws, stream>>>(args) as Launch{"k", blocks, ws, stream,
// type}(k)(args), and makes aclrtlaunch_k of each kernel. What it is not: the threads (libsoftnpu_ascendc.so). Arguments are copied at the call.
#pragma once

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <tuple>

#include "ascendc/core.h"
#include "ascendc/launch_key.h"
#include "ascendc/macros.h"

namespace AscendC::detail {

inline constexpr int kUnstated = -1;

template <class... P>
struct Closure {
  void (*kernel)(P...);
  int type;  // a KernelMetaType, as the kernel states it (KERNEL_TASK_TYPE_DEFAULT, __cube__, __mix__), or kUnstated
  uint64_t key;
  std::tuple<P...> arguments;

  static int run(void* state, const softnpuAscendcBlock* block, char* message, size_t room) noexcept {
    const Closure& closure = *static_cast<Closure*>(state);
    std::string text;
    try {
      Core core(*block);
      core.tiling_key = closure.key;
      if (closure.type != kUnstated) core.begin(static_cast<KernelMetaType>(closure.type));
      struct Current {
        explicit Current(Core* c) { t_core = c; }
        ~Current() { t_core = nullptr; }
      } current(&core);
      std::apply(closure.kernel, closure.arguments);
      text = core.left();
    } catch (const std::exception& e) {
      text = e.what();
    } catch (...) {
      text = "an exception that is none of the standard library's";
    }
    if (text.empty()) return 0;
    const uint32_t cores = closure.type == kUnstated ? 1 : Core::cores(static_cast<KernelMetaType>(closure.type));
    const uint32_t place = block->index % cores;
    const std::string which = cores == 1 ? "" : place == 0 ? " (cube core)" : format(" (vector core %u)", place - 1);
    snprintf(message, room, "block %u%s: %s", block->index / cores, which.c_str(), text.c_str());
    return 1;
  }
  static void drop(void* state) noexcept { delete static_cast<Closure*>(state); }
};

inline uint32_t too_many(const char* name, uint32_t blocks, uint32_t cores) {
  constexpr uint32_t kInvalidParam = 100000;  // ACL_ERROR_INVALID_PARAM
  softnpuAscendcMessage(format("%s: a launch has at most %u cores, which are %u blocks of %u here, and this one has %u "
                               "blocks",
                               name, SOFTNPU_ASCENDC_MOST_BLOCKS, SOFTNPU_ASCENDC_MOST_BLOCKS / cores, cores, blocks)
                            .c_str());
  return kInvalidParam;
}

template <class... P>
uint32_t launch(const char* name, int type, uint32_t blocks, void* stream, void (*kernel)(P...),
                std::type_identity_t<P>... arguments) {
  const uint32_t cores = type == kUnstated ? 1 : Core::cores(static_cast<KernelMetaType>(type));
  if (cores > 1 && blocks > SOFTNPU_ASCENDC_MOST_BLOCKS / cores) return too_many(name, blocks, cores);
  blocks *= cores;
  auto* closure = new Closure<P...>{kernel, type, t_launch_key, {arguments...}};
  const softnpuAscendcKernel described{SOFTNPU_ASCENDC_VERSION, __NPU_ARCH__,        name,   blocks,
                                       Closure<P...>::run,      Closure<P...>::drop, closure};
  return softnpuAscendcLaunch(stream, &described);
}

// The <<<>>> form, which has no result: a launch that fails throws.
struct Launch {
  const char* name;
  uint32_t blocks;
  void* reserved;  // CANN's l2ctrl: null
  void* stream;
  int type = kUnstated;

  template <class... P>
  auto operator()(void (*kernel)(P...)) const {
    return [launch = *this, kernel](P... arguments) {
      if (const uint32_t code =
              detail::launch(launch.name, launch.type, launch.blocks, launch.stream, kernel, arguments...))
        throw std::runtime_error(std::string(launch.name) + "<<<>>> was refused with " + std::to_string(code) +
                                 ": aclGetRecentErrMsg says why");
    };
  }
};

}  // namespace AscendC::detail

// The host's name for the function of aclrtlaunch_<kernel>.h.
#define ACLRT_LAUNCH_KERNEL(kernel) aclrtlaunch_##kernel
