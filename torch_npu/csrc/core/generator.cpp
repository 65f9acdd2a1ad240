#include "csrc/core/generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/TensorBase.h>

#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "csrc/core/device.h"
#include "csrc/core/graph.h"
#include "csrc/core/task_group.h"

namespace npu {
namespace {

// One Philox round makes four numbers.
constexpr uint64_t whole_rounds(uint64_t count) { return (count + 3) / 4 * 4; }
constexpr size_t kStateBytes = sizeof(uint64_t) + sizeof(int64_t);

// What a generator draws from. Generators may share one: PyTorch's compiled graphs lend a generator another's for an operator.
// Thread-safe.
class PhiloxState : public c10::intrusive_ptr_target {
 public:
  struct Value {
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
  };
  Value get() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return value_;
  }
  void set(Value value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    value_ = value;
  }
  // What was there; the next one to ask finds `count` numbers more gone.
  Value take(uint64_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {value_.seed, std::exchange(value_.offset, value_.offset + count)};
  }

 private:
  mutable std::mutex mutex_;
  Value value_;
};
using SharedState = c10::intrusive_ptr<PhiloxState>;

class PhiloxGenerator final : public c10::GeneratorImpl {
 public:
  explicit PhiloxGenerator(c10::DeviceIndex index, SharedState state = c10::make_intrusive<PhiloxState>())
      : GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, index),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        state_(std::move(state)) {}

  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  void set_current_seed(uint64_t seed) override { set({seed, 0}); }
  uint64_t current_seed() const override { return value().seed; }
  uint64_t seed() override {
    const uint64_t random = c10::detail::getNonDeterministicRandom(true);
    set_current_seed(random);
    return random;
  }
  void set_offset(uint64_t offset) override {
    check_offset(offset);
    set({value().seed, offset});
  }
  uint64_t get_offset() const override { return value().offset; }

  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const at::TensorBase state = at::detail::empty_cpu({kStateBytes}, at::kByte);
    auto* bytes = static_cast<uint8_t*>(state.mutable_data_ptr());
    const PhiloxState::Value now = value();
    std::memcpy(bytes, &now.seed, sizeof(uint64_t));
    std::memcpy(bytes + sizeof(uint64_t), &now.offset, sizeof(uint64_t));
    return state.getIntrusivePtr();
  }
  // A state of the seed alone (8 bytes) starts at offset 0.
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK_TYPE(
        state.device().is_cpu() && state.dtype() == caffe2::TypeMeta::Make<uint8_t>() && state.is_contiguous(),
        "RNG state must be a torch.ByteTensor on the CPU");
    const auto size = static_cast<size_t>(state.numel());
    TORCH_CHECK_VALUE(size == kStateBytes || size == sizeof(uint64_t), "RNG state is wrong size: ", size,
                      " bytes, not ", kStateBytes);
    const auto* bytes = static_cast<const uint8_t*>(state.data());
    PhiloxState::Value value{0, 0};
    std::memcpy(&value.seed, bytes, sizeof(value.seed));
    if (size == kStateBytes) std::memcpy(&value.offset, bytes + sizeof(value.seed), sizeof(value.offset));
    check_offset(value.offset);
    set(value);
  }

  // Not a copy, as CUDA's: a generator that stands for the state, so that what either draws the other does not draw again.
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<PhiloxGenerator>(device_.index(), state_);
  }
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override {
    const auto* philox = dynamic_cast<const PhiloxGenerator*>(other.get());
    TORCH_CHECK_TYPE(philox, "npu: expected the state of a generator of an npu device, got one of ", other->device());
    state_ = philox->state_;
  }

  bool shares_state(const PhiloxGenerator& other) const { return state_ == other.state_; }

  // Under mutex_.
  PhiloxSlice take(uint64_t count) {
    const PhiloxState::Value value = state_->take(whole_rounds(count));
    return {static_cast<int64_t>(value.seed), static_cast<int64_t>(value.offset)};
  }

 private:
  // In a capture, with what the graph has drawn: a checkpoint takes the state there, and sets it back.
  PhiloxState::Value value() const {
    PhiloxState::Value value = state_->get();
    if (Graph* graph = capturing_graph()) {
      if (const CapturedPhilox* captured = graph->random_of(this)) value.offset += captured->drawn;
    }
    return value;
  }
  // What a graph draws, its replays draw from where the generator is then: in a capture it can be set only to what is ahead of
  // where it was when that began.
  void set(PhiloxState::Value value) {
    Graph* const graph = capturing_graph();
    if (C10_LIKELY(!graph)) return state_->set(value);
    const PhiloxState::Value begin = state_->get();
    TORCH_CHECK(
        value.seed == begin.seed && value.offset >= begin.offset,
        "npu: while a graph is captured, a generator can be set only to states that it has in the capture, not to ",
        value.seed == begin.seed ? "an earlier one" : "another seed",
        ": its replays draw from where it is then. Set it before the capture, or before a replay");
    const uint64_t drawn = value.offset - begin.offset;
    if (!drawn && !graph->random_of(this)) return;
    CapturedPhilox& captured =
        graph->random_of(at::Generator(c10::intrusive_ptr<c10::GeneratorImpl>::reclaim_copy(this)));
    captured.drawn = drawn;
    captured.used |= drawn != 0;  // a replay leaves the generator there, too, if nothing draws
  }
  static void check_offset(uint64_t offset) { TORCH_CHECK(offset % 4 == 0, "offset must be a multiple of 4"); }
  PhiloxGenerator* clone_impl() const override {
    auto copy = c10::make_intrusive<PhiloxState>();
    copy->set(value());
    return new PhiloxGenerator(device_.index(), std::move(copy));
  }

  SharedState state_;
};

const PhiloxGenerator& as_philox(const c10::GeneratorImpl& generator) {
  return static_cast<const PhiloxGenerator&>(generator);
}

c10::DeviceIndex or_current(c10::DeviceIndex index) {
  if (index == -1) return current_device();
  check_device(index);
  return index;
}

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex index) {
  struct Slot {
    std::once_flag once;
    at::Generator generator;
  };
  static auto* const slots = new std::array<Slot, kMaxDevices>();  // leaked: Python may hold them at exit
  index = or_current(index);
  Slot& slot = (*slots)[index];
  std::call_once(slot.once, [&] {
    auto state =
        c10::make_intrusive<PhiloxState>();  // seeded before there is a generator: a capture may be the first to ask
    state->set({c10::detail::getNonDeterministicRandom(true), 0});
    slot.generator = at::make_generator<PhiloxGenerator>(index, std::move(state));
  });
  return slot.generator;
}

bool share_state(const c10::GeneratorImpl& a, const c10::GeneratorImpl& b) {
  return as_philox(a).shares_state(as_philox(b));
}

at::Generator new_generator(c10::DeviceIndex index) { return at::make_generator<PhiloxGenerator>(or_current(index)); }

namespace {

const at::Generator& checked(const std::optional<at::Generator>& generator) {
  const at::Generator& chosen = generator && generator->defined() ? *generator : default_generator();
  TORCH_CHECK(chosen.device().type() == c10::DeviceType::PrivateUse1,
              "Expected a 'npu' device type for generator but found '", chosen.device().type(), "'");
  TORCH_CHECK(chosen.device().index() == current_device(),
              "Expected a generator of npu:", static_cast<int>(current_device()), " but found one of ",
              chosen.device());
  return chosen;
}

}  // namespace

PhiloxSlice next_philox(const std::optional<at::Generator>& generator, uint64_t count) {
  TORCH_CHECK(
      !capturing_graph(),
      "npu: this operator's random numbers cannot be captured in a graph, since CANN has none that takes its seed ",
      "from memory (randperm, for one): draw them in front of the capture. Those of dropout, uniform_, normal_, ",
      "random_, bernoulli_ and multinomial can be captured");
  TORCH_CHECK(!is_updating(current_stream()), "npu: an operator that draws random numbers cannot be updated in a ",
              "graph: each replay would draw the same ones. End its task group before it, or capture the graph again");
  auto* philox = static_cast<PhiloxGenerator*>(checked(generator).unsafeGetGeneratorImpl());
  const std::lock_guard<std::mutex> lock(philox->mutex_);
  return philox->take(count);
}

PhiloxDraw draw_philox(const std::optional<at::Generator>& generator, uint64_t count) {
  Graph* graph = capturing_graph();
  if (C10_LIKELY(!graph)) return {next_philox(generator, count), nullptr};
  CapturedPhilox& captured = graph->random_of(checked(generator));
  const PhiloxDraw draw{{0, static_cast<int64_t>(captured.drawn)}, &captured};
  captured.drawn += whole_rounds(count);
  captured.used = true;
  return draw;
}

}  // namespace npu
