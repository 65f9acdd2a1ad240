// Host side: puts a kernel on a stream. `bisheng` writes k<<<blocks, l2ctrl, stream>>>(args) as Launch{"k", type}(k)(blocks, l2ctrl,
// stream)(args), and makes aclrtlaunch_k of each kernel. What it is not: the threads (libsoftnpu_ascendc.so). Arguments are copied at the call.
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

// Which cores a kernel runs on. `bisheng` has each kernel begin with asked(): a launch, which may call it by a pointer or another name, calls
// it to be told, and the kernel returns at once. Who asks may be of another library, or a program, which share no variables with this one.
struct Asked {
  const char* name;
  int type;
};
inline bool asked(const char* name, int type, bool auto_sync = true) {
  const softnpuAscendcThread& thread = *softnpuAscendcThisThread();
  if (__builtin_expect(thread.asked != nullptr, 0)) {
    *static_cast<Asked*>(thread.asked) = {name, type};
    return true;
  }
  if (auto* const core = static_cast<Core*>(thread.core)) {
    if (t_core != core) core->lent.push_back(&t_core), t_core = core;
    core->hazards.auto_sync = auto_sync;
  }
  return false;
}

}  // namespace AscendC::detail
#pragma GCC visibility pop

// Hidden: each library may be unloaded, and launches by its own functions.
#pragma GCC visibility push(hidden)
namespace AscendC::detail {

// What a launch's default arguments were when it was made, by the expression (a lambda's type) that gives each.
class Defaults {
 public:
  Defaults() = default;
  Defaults(Defaults&& other) noexcept : known_(std::exchange(other.known_, {})) {}
  Defaults& operator=(Defaults&&) = delete;
  ~Defaults() {
    for (const Known& k : known_) k.drop(k.value);
  }
  void* find(const void* key) const {
    for (const Known& k : known_)
      if (k.key == key) return k.value;
    return nullptr;
  }
  // What an expression throws is its own.
  template <class F>
  auto evaluate(F expression) {
    evaluates_ = true;
    auto value = expression();
    evaluates_ = false;
    return value;
  }
  bool evaluates() const { return evaluates_; }
  template <class T>
  void keep(const void* key, const T& value) {
    known_.push_back({key, nullptr, [](void* kept) { delete static_cast<T*>(kept); }});
    known_.back().value = new T(value);
  }

 private:
  struct Known {
    const void* key;
    void* value;
    void (*drop)(void*);
  };
  std::vector<Known> known_;
  bool evaluates_ = false;
};

// `bisheng` has each default argument of a kernel that is no literal be a call of this, with the parameter's type. A launch evaluates it as it
// asks the kernel, and cores, which call the kernel later and more than once, find the value.
template <class T, class F>
T at_launch(F expression) {
  static const char key = 0;
  const softnpuAscendcThread& thread = *softnpuAscendcThisThread();
  auto* const defaults = static_cast<Defaults*>(thread.defaults);
  if (defaults == nullptr) return expression();
  if (const void* const known = defaults->find(&key)) return *static_cast<const T*>(known);
  if (thread.asked == nullptr)
    return expression();  // a core, of which others run beside it, calls a kernel as a function
  T value = defaults->evaluate(expression);
  defaults->keep(&key, value);
  return value;
}
// The same where the type cannot be read, as of a pointer to a function: it becomes that of the parameter.
template <class F>
struct AtLaunch {
  F expression;  // told the type by its argument

  template <class T>
  operator T() const {
    return at_launch<T>([this] { return expression(std::type_identity<T>()); });
  }
};
template <class F>
AtLaunch(F) -> AtLaunch<F>;

inline constexpr int kUnstated = -1;
inline constexpr int kEither = -2;  // the same in a source that uses the cube: it may mean both kinds of cores

template <class... P>
struct Closure {
  void (*kernel)(P...);
  int type;  // a KernelMetaType, as the kernel states it (KERNEL_TASK_TYPE_DEFAULT, __cube__, __mix__), kUnstated or kEither
  uint64_t key;
  Defaults defaults;
  std::tuple<P...> arguments;

  static int run(void* state, const softnpuAscendcBlock* block, char* message, size_t room) noexcept {
    Closure& closure = *static_cast<Closure*>(state);
    std::string text;
    try {
      Core core(*block);
      core.tiling_key = closure.key;
      core.either = closure.type == kEither;
      if (closure.type >= 0) core.begin(static_cast<KernelMetaType>(closure.type));
      struct Current {
        Current(Core* c, Defaults* defaults) : core(c) { t_core = c, thread.core = c, thread.defaults = defaults; }
        ~Current() {
          for (Core** other : core->lent) *other = nullptr;
          t_core = nullptr, thread.core = nullptr, thread.defaults = nullptr;
        }
        Core* core;
        softnpuAscendcThread& thread = *softnpuAscendcThisThread();
      } current(&core, &closure.defaults);
      std::apply(closure.kernel, closure.arguments);
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
uint32_t launch_with(Defaults defaults, const char* name, int type, uint32_t blocks, void* stream, void (*kernel)(P...),
                     std::type_identity_t<P>... arguments) {
  static_assert(!(std::is_reference_v<P> || ...),
                "a kernel's parameter is a reference, which no launch can pass: the kernel runs later");
  const uint32_t cores = type < 0 ? 1 : Core::cores(static_cast<KernelMetaType>(type));
  if (cores > 1 && blocks > SOFTNPU_ASCENDC_MOST_BLOCKS / cores) return too_many(name, blocks, cores);
  blocks *= cores;
  auto* closure = new Closure<P...>{kernel, type, t_launch_key, std::move(defaults), {arguments...}};
  const softnpuAscendcKernel described{SOFTNPU_ASCENDC_VERSION, __NPU_ARCH__,        name,   blocks,
                                       Closure<P...>::run,      Closure<P...>::drop, closure};
  return softnpuAscendcLaunch(stream, &described);
}
template <class... P>
uint32_t launch(const char* name, int type, uint32_t blocks, void* stream, void (*kernel)(P...),
                std::type_identity_t<P>... arguments) {
  return launch_with({}, name, type, blocks, stream, kernel, arguments...);
}

// The kernel's name and type, and what stands in <<<>>>.
struct Launching {
  // The number of blocks, of any type that becomes one.
  struct Count {
    template <class T>
    Count(T count) : value(static_cast<uint32_t>(count)) {}
    uint32_t value;
  };
  const char* name;
  int type;
  Count blocks;
  void* stream;
};

struct Answer {
  Asked asked{nullptr, kUnstated};
  Defaults defaults;
};

template <class Call>
Answer ask(const char* launched, Call call) {
  Answer answer;
  struct Asking {
    softnpuAscendcThread& thread = *softnpuAscendcThisThread();
    const softnpuAscendcThread before = thread;  // where an argument's copy launches a kernel itself
    explicit Asking(Answer& answer) { thread.asked = &answer.asked, thread.defaults = &answer.defaults; }
    ~Asking() { thread.asked = before.asked, thread.defaults = before.defaults; }
  } asking(answer);
  std::string said = "it did not begin as one";
  try {
    call();
  } catch (const std::exception& e) {
    if (answer.defaults.evaluates()) throw;
    said = e.what();
  }
  if (answer.asked.name) return answer;
  throw std::runtime_error(std::string(launched) +
                           "<<<>>>: what is launched is no __global__ function that bisheng has compiled (" + said +
                           ")");
}

// What is called with a kernel's arguments. There is no result: a launch that fails throws.
template <class... P>
struct Launchable {
  Launching launch;
  void (*kernel)(P...);

  void operator()(P... arguments) const {
    if (kernel == nullptr) throw std::runtime_error(std::string(launch.name) + "<<<>>>: the kernel's pointer is null");
    auto [asked, defaults] = ask(launch.name, [&] { kernel(arguments...); });
    const int type = asked.type < 0 ? launch.type : asked.type;
    if (const uint32_t code = launch_with(std::move(defaults), asked.name, type, launch.blocks.value, launch.stream,
                                          kernel, arguments...))
      throw std::runtime_error(std::string(asked.name) + "<<<>>> was refused with " + std::to_string(code) + ": " +
                               softnpuAscendcRecent());
  }
};

// The same where the arguments say which function is meant: `called` is a lambda around the kernel, whose call the compiler resolves.
template <class Called>
struct LaunchableBy {
  Launching launch;
  Called called;

  template <class... A>
  void operator()(A... arguments) const {
    Launchable<A...>{launch, called}(arguments...);
  }
};

// And where the name alone says a function, but a call may give more or fewer arguments than it has: default arguments, packs.
template <class Called, class... P>
struct LaunchableWithDefaults : Launchable<P...> {
  LaunchableBy<Called> other;

  LaunchableWithDefaults(Launchable<P...> all, Called called) : Launchable<P...>(all), other{all.launch, called} {}
  using Launchable<P...>::operator();
  template <class... A>
    requires(sizeof...(A) != sizeof...(P))
  void operator()(A... arguments) const {
    other(arguments...);
  }
};

// Called with the kernel, then with what stands in <<<>>>, of which l2ctrl is CANN's and null.
struct Launch {
  const char* name;
  int type;

  template <class... P>
  auto operator()(void (*kernel)(P...)) const {
    return [launch = *this, kernel](Launching::Count blocks, void*, void* stream) {
      return Launchable<P...>{{launch.name, launch.type, blocks, stream}, kernel};
    };
  }
  // `whole` is a lambda that gives the above if the name alone says which function is meant; if not, its call does not compile, and `called` remains.
  template <class Whole, class Called>
  auto operator()(Whole whole, Called called) const {
    return [launch = *this, whole, called](Launching::Count blocks, void* reserved, void* stream) {
      if constexpr (std::is_invocable_v<Whole, Launch>)
        return LaunchableWithDefaults(whole(launch)(blocks, reserved, stream), called);
      else
        return LaunchableBy<Called>{{launch.name, launch.type, blocks, stream}, called};
    };
  }
};

}  // namespace AscendC::detail
#pragma GCC visibility pop

// The host's name for the function of aclrtlaunch_<kernel>.h.
#define ACLRT_LAUNCH_KERNEL(kernel) aclrtlaunch_##kernel
