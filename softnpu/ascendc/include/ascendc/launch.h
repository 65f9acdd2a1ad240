// Host side: puts a kernel on a stream. `bisheng` writes k<<<blocks, l2ctrl, stream>>>(args) as a call of go(), below, with a lambda that
// calls k(args), and makes aclrtlaunch_k of each kernel. What it is not: the threads (libsoftnpu_ascendc.so). Arguments are copied at the call.
#pragma once

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ascendc/core.h"
#include "ascendc/launch_key.h"
#include "ascendc/macros.h"

#pragma GCC visibility push(default)
namespace AscendC::detail {

// A kernel as a launch has it: its body with copies of its arguments. `bisheng` has each kernel be a call of kernel(), below. A launch, which may
// call it by a pointer or another name, calls it once, where arguments and default arguments become values, and has this filled; cores run the
// body. Who launches may be of another library, or a program, which share no variables with the kernel's.
struct Launched {
  const char* name;
  int type;
  void* body;
  void (*run)(const void* body);
  void (*drop)(void* body);
  std::exception_ptr error;  // in place of all that
};

}  // namespace AscendC::detail
#pragma GCC visibility pop

// Hidden: each library may be unloaded, and launches by its own functions.
#pragma GCC visibility push(hidden)
namespace AscendC::detail {

// What `bisheng` tells of a kernel beside its type.
inline constexpr int kNoAutoSync = 1;  // its compiler inserts no flags
inline constexpr int kKeeps = 2;       // it is noexcept: as a function its errors are kept until the core ends

// A core, whichever library has launched it, begins to run a kernel of this one.
inline void enter(const softnpuAscendcThread& thread, bool auto_sync) {
  if (auto* const core = static_cast<Core*>(thread.core)) {
    if (t_core != core) core->lent.push_back(&t_core), t_core = core;
    core->hazards.auto_sync = auto_sync;
  }
}

// The types of a kernel's parameters, as it declares them.
template <class... P>
struct Given {};

// What such a parameter is passed on as: a value is moved, or copied where it has a copy alone.
template <class P, class T>
constexpr decltype(auto) give(T& parameter) {
  if constexpr (std::is_reference_v<P> || std::is_constructible_v<P, P&&>)
    return static_cast<P&&>(parameter);
  else if constexpr (std::is_constructible_v<P, const P&>)
    return std::as_const(parameter);
  else
    return (parameter);
}

// The body, a lambda, and what it is given.
template <class F, class... P>
struct Body {
  bool auto_sync;
  F body;
  std::tuple<P...> arguments;

  // With copies of the core's own.
  __attribute__((noinline)) static void run(const void* body) {
    const Body& kept = *static_cast<const Body*>(body);
    enter(*softnpuAscendcThisThread(), kept.auto_sync);
    std::tuple<P...> arguments(kept.arguments);
    std::apply([&kept](P&... copies) { F(kept.body)(give<P>(copies)...); }, arguments);
  }
  static void drop(void* body) { delete static_cast<Body*>(body); }
};

// On the chip a reference would be an address of the host.
template <class P>
inline constexpr bool can_be_launched = !std::is_reference_v<P> && std::is_copy_constructible_v<P>;

// `body` is the whole of a kernel. Where no launch asks, a core calls a kernel as a function.
template <class... P, class F>
constexpr void kernel(const char* name, int type, int told, Given<P...>, F body,
                      std::remove_reference_t<P>&... arguments) {
  if (__builtin_is_constant_evaluated()) {
    body(give<P>(arguments)...);
    return;
  }
  const bool auto_sync = !(told & kNoAutoSync);
  const softnpuAscendcThread& thread = *softnpuAscendcThisThread();
  if (auto* const launch = static_cast<Launched*>(thread.launch); __builtin_expect(launch != nullptr, 0)) {
    try {
      if constexpr ((can_be_launched<P> && ...)) {
        using Kept = Body<F, std::remove_cv_t<P>...>;
        auto* const kept = new Kept{auto_sync, std::move(body), {give<P>(arguments)...}};
        if (launch->body) launch->drop(launch->body);  // of a kernel that an argument called
        *launch = {name, type, kept, Kept::run, Kept::drop, nullptr};
      } else {
        throw std::invalid_argument(std::string(name) +
                                    "<<<>>>: a parameter is a reference or has no copy, which no launch can pass: the "
                                    "kernel runs later, on each core");
      }
    } catch (...) {  // the kernel may be noexcept
      launch->error = std::current_exception();
    }
    return;
  }
  enter(thread, auto_sync);
  if (told & kKeeps) {
    try {
      body(give<P>(arguments)...);
    } catch (...) {
      keep();
    }
  } else {
    body(give<P>(arguments)...);
  }
}

inline constexpr int kUnstated = -1;
inline constexpr int kEither = -2;  // the same in a source that uses the cube: it may mean both kinds of cores

// A call, of whatever type: what a launch does with it is compiled once.
struct Call {
  const void* what;
  void (*run)(const void* what);

  template <class F>
  explicit Call(const F& f) : what(&f), run([](const void* it) { (*static_cast<const F*>(it))(); }) {}
  void operator()() const { run(what); }
};

// Owns a kernel's body.
class Closure {
 public:
  explicit Closure(Launched launched = {nullptr, kUnstated, nullptr, nullptr, nullptr, nullptr})
      : launched_(std::move(launched)) {}
  Closure(Closure&& other) noexcept
      : type(other.type), key(other.key), launched_(std::exchange(other.launched_, Launched{})) {}
  Closure& operator=(Closure&&) = delete;
  ~Closure() {
    if (launched_.body) launched_.drop(launched_.body);
  }
  // What `call`, which calls a kernel, leaves; nothing if it called none. What the arguments' copies and default arguments throw is their own.
  std::string ask(const Call& call) {
    struct Asking {
      softnpuAscendcThread& thread = *softnpuAscendcThisThread();
      void* const before = thread.launch;  // where an argument's copy launches a kernel itself
      explicit Asking(Launched& launched) { thread.launch = &launched; }
      ~Asking() { thread.launch = before; }
    } asking(launched_);
    std::string said = "it did not begin as one";
    try {
      call();
    } catch (const KernelError& e) {
      said = e.what();
    }
    if (launched_.error) std::rethrow_exception(launched_.error);
    return said;
  }
  const Launched& launched() const { return launched_; }

  int type =
      kUnstated;  // a KernelMetaType, as the kernel states it (KERNEL_TASK_TYPE_DEFAULT, __cube__, __mix__), kUnstated or kEither
  uint64_t key = 0;

  static int run(void* state, const softnpuAscendcBlock* block, char* message, size_t room) noexcept {
    const Closure& closure = *static_cast<Closure*>(state);
    std::string text;
    try {
      Core core(*block);
      core.tiling_key = closure.key;
      core.either = closure.type == kEither;
      if (closure.type >= 0) core.begin(static_cast<KernelMetaType>(closure.type));
      struct Current {
        explicit Current(Core* c) : core(c) { t_core = c, thread.core = c; }
        ~Current() {
          for (Core** other : core->lent) *other = nullptr;
          t_core = nullptr, thread.core = nullptr;
        }
        Core* core;
        softnpuAscendcThread& thread = *softnpuAscendcThisThread();
      } current(&core);
      closure.launched_.run(closure.launched_.body);
      if (core.thrown) std::rethrow_exception(core.thrown);
      text = core.left();
    } catch (const std::exception& e) {
      text = e.what();
    } catch (...) {
      text = "an exception that is none of the standard library's";
    }
    if (text.empty()) return 0;
    const uint32_t cores = closure.type < 0 ? 1 : Core::cores(static_cast<KernelMetaType>(closure.type));
    const uint32_t place = block->index % cores;
    const std::string which = cores == 1 ? "" : place == 0 ? " (cube core)" : format(" (vector core %u)", place - 1);
    snprintf(message, room, "block %u%s: %s", block->index / cores, which.c_str(), text.c_str());
    return 1;
  }
  static void drop(void* state) noexcept { delete static_cast<Closure*>(state); }

 private:
  Launched launched_;
};

inline uint32_t refused(const char* name, const std::string& why) {
  constexpr uint32_t kInvalidParam = 100000;  // ACL_ERROR_INVALID_PARAM
  softnpuAscendcMessage((name + (": " + why)).c_str());
  return kInvalidParam;
}

inline uint32_t put(Closure closure, int type, uint32_t blocks, void* stream) {
  closure.type = type;
  closure.key = t_launch_key;
  const char* const name = closure.launched().name;
  const uint32_t cores = type < 0 ? 1 : Core::cores(static_cast<KernelMetaType>(type));
  if (cores > 1 && blocks > SOFTNPU_ASCENDC_MOST_BLOCKS / cores)
    return refused(name,
                   format("a launch has at most %u cores, which are %u blocks of %u here, and this one has %u blocks",
                          SOFTNPU_ASCENDC_MOST_BLOCKS, SOFTNPU_ASCENDC_MOST_BLOCKS / cores, cores, blocks));
  const softnpuAscendcKernel described{
      SOFTNPU_ASCENDC_VERSION,        __NPU_ARCH__, name, blocks * cores, Closure::run, Closure::drop,
      new Closure(std::move(closure))};
  return softnpuAscendcLaunch(stream, &described);
}
// aclrtlaunch_k, which C calls: what the arguments' copies throw is its error. `called` is a kernel.
template <class... P>
uint32_t launch(const char* name, int type, uint32_t blocks, void* stream, void (*called)(P...),
                const std::type_identity_t<P>&... arguments) noexcept {
  try {
    Closure closure;
    const std::string said = closure.ask(Call([&] { called(arguments...); }));
    if (!closure.launched().body) return refused(name, said);
    return put(std::move(closure), type, blocks, stream);
  } catch (const std::exception& e) {
    return refused(name, e.what());
  } catch (...) {
    return refused(name, "a copy of an argument has thrown what is no exception of the standard library's");
  }
}
// What is no kernel, as one block.
template <class F>
uint32_t launch_function(const char* name, void* stream, F function) {
  using Kept = Body<F>;
  Kept* const kept = new Kept{true, std::move(function), {}};
  return put(Closure({name, kUnstated, kept, Kept::run, Kept::drop, nullptr}), kUnstated, 1, stream);
}

// The kernel's name and type, and what stands in <<<>>>.
struct Launching {
  // The number of blocks, of any type that becomes one.
  struct Count {
    template <class T>
      requires requires(T count) { static_cast<uint32_t>(count); }
    Count(T count) : value(static_cast<uint32_t>(count)) {}
    uint32_t value;
  };
  const char* name;
  int type;
  Count blocks;
  void* stream;
};
// l2ctrl is CANN's and null.
inline Launching launching(const char* name, int type, Launching::Count blocks, void* /*l2ctrl*/, void* stream) {
  return {name, type, blocks, stream};
}

// Looks at what is launched, where that is one function or a pointer to one.
struct Launchable {
  const char* name;

  template <class R, class... P>
  void operator()(R (*kernel)(P...)) const {
    static_assert(!(std::is_reference_v<P> || ...),
                  "a kernel's parameter is a reference, which no launch can pass: the kernel runs later");
    if (kernel == nullptr) throw std::runtime_error(std::string(name) + "<<<>>>: the kernel's pointer is null");
  }
};

// There is no result: a launch that fails throws.
inline void go(const Launching& launch, const Call& call) {
  Closure closure;
  const std::string said = closure.ask(call);
  const Launched& kernel = closure.launched();
  if (!kernel.body)
    throw std::runtime_error(std::string(launch.name) +
                             "<<<>>>: what is launched is no __global__ function that bisheng has compiled (" + said +
                             ")");
  const std::string name = kernel.name;
  const int type = kernel.type < 0 ? launch.type : kernel.type;
  if (const uint32_t code = put(std::move(closure), type, launch.blocks.value, launch.stream))
    throw std::runtime_error(name + "<<<>>> was refused with " + std::to_string(code) + ": " + softnpuAscendcRecent());
}
// `call` calls the kernel with the launch's arguments. `look` calls a Launchable with the kernel, where that is one function.
template <class F, class Look>
void go(const Launching& launch, const F& call, Look look) {
  if constexpr (std::is_invocable_v<Look, Launchable>) look(Launchable{launch.name});
  go(launch, Call(call));
}
// Of a pointer, by an expression that is computed once.
template <class Kernel, class F>
void go_by(Kernel&& kernel, const Launching& launch, const F& call) {
  if constexpr (std::is_invocable_v<Launchable, Kernel&>) Launchable{launch.name}(kernel);
  go(launch, Call([&] { call(kernel); }));
}

}  // namespace AscendC::detail
#pragma GCC visibility pop

// The host's name for the function of aclrtlaunch_<kernel>.h.
#define ACLRT_LAUNCH_KERNEL(kernel) aclrtlaunch_##kernel
