// See workers.h.
#include "softnpu/ops/workers.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "acl/api.h"
#include "softnpu/ops/kernels.h"
#include "softnpu/ops/shapes.h"
#include "softnpu/runtime/extent.h"

// Variadic, so no row of the ABI's table makes it.
extern "C" void aclAppLog(aclLogLevel level, const char* func, const char* file, uint32_t line, const char* fmt, ...);

namespace softnpu::ops::kernels {
namespace {

constexpr uint64_t kLine = 512;  // what a token's place is a multiple of

// The layout that the vendor's pages give.
#pragma pack(push, 1)
struct Buffer {
  uint64_t address, bytes;
};
struct Context {
  uint32_t sessions, micro_batches, tokens, choices, experts, to_ffn, to_attention;
  int32_t mode;
  char reserved0[96];
  int32_t running;
  char reserved1[124];
  struct {
    Buffer info, data;
    uint32_t ready;
    char reserved[92];
  } attention;
  struct {
    Buffer info, data;
    uint64_t next;
    char reserved2[88];
    Buffer layers, sessions, micro_batches, experts;
    uint32_t count;
    char reserved3[60];
  } ffn;
  char reserved4[384];
};
#pragma pack(pop)
static_assert(sizeof(Context) == 1024 && offsetof(Context, running) == 128 && offsetof(Context, attention) == 256 &&
              offsetof(Context, ffn) == 384 && offsetof(Context, ffn.layers) == 512 &&
              offsetof(Context, ffn.count) == 576);

Context& context_of(const Tensor& t) {
  auto& c = *static_cast<Context*>(t.data_ptr());
  // So few that no product of them and of a token's bytes is too large for 64 bits.
  constexpr uint64_t kMost = 1 << 16;
  const bool few = c.sessions <= kMost && c.micro_batches <= kMost && c.tokens <= kMost && c.choices <= kMost;
  const uint64_t all = std::max<uint64_t>(c.sessions, 1) * c.micro_batches;
  TORCH_CHECK(few && all > 0 && c.tokens > 0 && c.choices > 0 && all * c.tokens <= uint64_t{1} << 31 &&
                  all * c.tokens * c.choices <= uint64_t{1} << 31,
              "the schedule context has ", c.sessions, " sessions, ", c.micro_batches, " micro batches of ", c.tokens,
              " tokens with ", c.choices, " experts each");
  return c;
}

// A stretch of the memory that the context names; refused where that is not the device's, or shorter.
template <class T>
T* memory(const char* name, const Buffer& b, uint64_t bytes) {
  void* const at = reinterpret_cast<void*>(static_cast<uintptr_t>(b.address));  // NOLINT
  TORCH_CHECK(at && b.address % alignof(T) == 0, "the schedule context's ", name, " is at ", at);
  const uint64_t there = device_bytes_from(at);
  TORCH_CHECK(there != kHostMemory, "the schedule context's ", name, " is not in the device's memory");
  TORCH_CHECK(bytes <= there, "the schedule context's ", name, " needs ", bytes, " bytes, and ", there, " are there");
  return static_cast<T*>(at);
}

int32_t look(int32_t& word) { return std::atomic_ref<int32_t>(word).load(std::memory_order_acquire); }
void clear(int32_t& word) { std::atomic_ref<int32_t>(word).store(0, std::memory_order_release); }

// False: the context says that it runs no more.
template <class Ready>
bool wait(Context& c, const char* what, const Ready& ready) {
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; !ready(); round++) {
    if (look(c.running) == 0) {
      aclAppLog(ACL_INFO, __func__, __FILE__, __LINE__, "the schedule context's run_flag is 0: nothing is done");
      return false;
    }
    TORCH_CHECK(!running_task_aborted(), "it waited for ", what, " when its stream was aborted");
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
    const int64_t limit = operator_limit_ns();
    TORCH_CHECK(!limit || took.count() <= limit, "it waited for ", what, " for ",
                static_cast<double>(took.count()) / 1e9, " s, and the limit is ", static_cast<double>(limit) / 1e9,
                " s (aclrtSetOpExecuteTimeOut)");
    if (round > 100) std::this_thread::sleep_for(std::chrono::microseconds(round > 1000 ? 1000 : 50));
  }
  return true;
}

uint64_t choices_of(const Context& c) { return uint64_t{c.tokens} * c.choices; }

// What an attention worker sends: its mark, the layer, and the experts of each token.
struct Sent {
  int32_t mark, layer;
  const int32_t* experts() const { return reinterpret_cast<const int32_t*>(this + 1); }
};
class Info {
 public:
  explicit Info(const Context& c) : micro_batches_(c.micro_batches), words_(2 + choices_of(c)) {
    words_of_all_ = memory<int32_t>("token_info_buf", c.ffn.info, uint64_t{c.sessions} * micro_batches_ * words_ * 4);
  }
  Sent& of(uint64_t session, uint64_t micro_batch) const {
    return *reinterpret_cast<Sent*>(words_of_all_ + (session * micro_batches_ + micro_batch) * words_);
  }

 private:
  uint64_t micro_batches_, words_;
  int32_t* words_of_all_;
};

// Of FFN workers, what one session has ready.
struct Ready {
  uint64_t session, micro_batch;
};

// The first micro batch that all sessions of [first, end) have marked, or -1.
int64_t marked_by_all(const Context& c, const Info& info, uint64_t first, uint64_t end) {
  for (uint64_t m = 0; m < c.micro_batches; m++) {
    bool all = true;
    for (uint64_t s = first; s < end; s++) all = all && look(info.of(s, m).mark) == 1;
    if (all) return static_cast<int64_t>(m);
  }
  return -1;
}

std::vector<Ready> ready_sessions(Context& c, const Info& info, uint64_t group_size) {
  std::vector<Ready> found;
  if (group_size == c.sessions) {
    const uint64_t m = c.ffn.next % c.micro_batches;
    for (uint64_t s = 0; s < c.sessions; s++) {
      if (look(info.of(s, m).mark) == 1) found.push_back({s, m});
    }
    if (found.size() < c.sessions) return {};
    c.ffn.next = (m + 1) % c.micro_batches;
    return found;
  }
  for (uint64_t first = 0; first < c.sessions; first += group_size) {
    const uint64_t end = std::min<uint64_t>(first + group_size, c.sessions);
    const int64_t m = marked_by_all(c, info, first, end);
    for (uint64_t s = first; m >= 0 && s < end; s++) found.push_back({s, static_cast<uint64_t>(m)});
  }
  return found;
}

uint64_t place_of(uint32_t said, uint64_t bytes) { return said >= bytes ? said : (bytes + kLine - 1) / kLine * kLine; }

at::ScalarType token_type(int64_t type) { return type == 0 ? at::kHalf : type == 1 ? at::kBFloat16 : at::kChar; }

}  // namespace

void check_context(const Tensor& context) {
  need_sizes("scheduleContext", context, {sizeof(Context)});
  TORCH_CHECK(context.is_contiguous(), "scheduleContext must be contiguous");
}

void attention_scheduler(const Tensor& context) {
  Context& c = context_of(context);
  const uint64_t flags = choices_of(c), m = (uint64_t{c.attention.ready} + 1) % c.micro_batches;
  auto* const all = memory<int32_t>("token_info_buf", c.attention.info, flags * c.micro_batches * 4);
  int32_t* const here = all + m * flags;
  const auto ready = [&] { return std::all_of(here, here + flags, [](int32_t& flag) { return look(flag) == 1; }); };
  if (!wait(c, "the experts' results of a micro batch", ready)) return;
  std::for_each(here, here + flags, clear);
  c.attention.ready = static_cast<uint32_t>(m);
}

void check_ffn_scheduler(const Tensor& context, int64_t group_size, int64_t mode) {
  check_context(context);
  need_number("executeMode", mode, {0});
  TORCH_CHECK(group_size > 0, "syncGroupSize is ", group_size, ", not positive");
}

void ffn_scheduler(const Tensor& context, int64_t group_size) {
  Context& c = context_of(context);
  TORCH_CHECK(c.sessions > 0 && group_size <= c.sessions && c.sessions % group_size == 0, "syncGroupSize is ",
              group_size, ", which does not divide the context's ", c.sessions, " sessions");
  const Info info(c);
  const uint64_t n = c.sessions;
  auto* const layers = memory<int32_t>("layer_ids_buf", c.ffn.layers, n * 4);
  auto* const sessions = memory<int32_t>("session_ids_buf", c.ffn.sessions, n * 4);
  auto* const micro_batches = memory<int32_t>("micro_batch_ids_buf", c.ffn.micro_batches, n * 4);
  auto* const experts = memory<int32_t>("expert_ids_buf", c.ffn.experts, n * choices_of(c) * 4);
  std::vector<Ready> found;
  const auto ready = [&] {
    found = ready_sessions(c, info, static_cast<uint64_t>(group_size));
    return !found.empty();
  };
  if (!wait(c, "the tokens of attention workers", ready)) return;
  for (size_t i = 0; i < found.size(); i++) {
    Sent& sent = info.of(found[i].session, found[i].micro_batch);
    layers[i] = sent.layer;
    sessions[i] = static_cast<int32_t>(found[i].session);
    micro_batches[i] = static_cast<int32_t>(found[i].micro_batch);
    std::copy_n(sent.experts(), choices_of(c), experts + i * choices_of(c));
    clear(sent.mark);
  }
  c.ffn.count = static_cast<uint32_t>(found.size());
}

void check_combine(const Tensor& context, const Tensor& scales, const Tensor& layer, int64_t columns, int64_t type,
                   int64_t wait, const Tensor& y, const Tensor& next) {
  check_context(context);
  need_dims("expertScales", scales, {2});
  TORCH_CHECK(scales.size(1) <= 64, "expertScales has ", scales.size(1), " columns, more than 64");
  need_sizes("layerId", layer, {1});
  need_sizes("nextLayerId", next, {1});
  need_number("tokenDtype", type, {0, 1});
  need_number("needSchedule", wait, {0, 1});
  need_sizes("y", y, {scales.size(0), columns});
  TORCH_CHECK(y.scalar_type() == token_type(type), "y is ", y.scalar_type(), ", and tokenDtype ", type, " is ",
              token_type(type));
}

void combine(const Tensor& context, const Tensor& scales, const Tensor& layer, int64_t wait, Tensor& y, Tensor& next) {
  if (wait) attention_scheduler(context);
  Context& c = context_of(context);
  TORCH_CHECK(scales.size(0) <= c.tokens && scales.size(1) == c.choices && c.attention.ready < c.micro_batches,
              "expertScales is ", scales.sizes(), ", and the schedule context has ", c.tokens, " tokens with ",
              c.choices, " experts, of micro batch ", c.attention.ready, " of ", c.micro_batches);
  const uint64_t item = y.element_size(), place = place_of(c.to_attention, static_cast<uint64_t>(y.size(1)) * item);
  TORCH_CHECK(place % item == 0, "the schedule context's ffn_to_attn_token_size is ", place, ", no multiple of ", item);
  const uint64_t batch = choices_of(c) * place;
  const uint64_t begin = batch * c.attention.ready;
  char* const all =
      memory<char>("token_data_buf", c.attention.data, begin + static_cast<uint64_t>(scales.numel()) * place);
  const int64_t step = static_cast<int64_t>(place / item);
  const Tensor tokens = at::from_blob(all + begin, {scales.size(0), scales.size(1), y.size(1)},
                                      {scales.size(1) * step, step, 1}, y.options());
  y.copy_(tokens.to(at::kFloat).mul(scales.unsqueeze(-1)).sum(1));
  next.copy_(layer).add_(1);
}

void check_batching(const Tensor& context, int64_t experts, IntArrayRef most, int64_t type, int64_t wait,
                    int64_t layers, const Batch& out) {
  check_context(context);
  TORCH_CHECK(experts > 0 && experts <= 8192, "expertNum is ", experts, ", not 1 to 8192");
  TORCH_CHECK(most.size() == 4, "maxOutShape has ", most.size(), " numbers, not 4");
  TORCH_CHECK(most[0] > 0 && most[0] <= 1024 && most[1] > 0 && most[2] > 0 && most[2] <= 64 && most[3] > 0,
              "maxOutShape is ", most, ", not workers up to 1024, tokens, experts up to 64, columns");
  need_number("tokenDtype", type, {0, 1, 2});
  need_number("needSchedule", wait, {0, 1});
  TORCH_CHECK(layers >= 0 && (layers == 0 || experts % layers == 0), "layerNum is ", layers,
              ", which does not divide expertNum, ", experts);
  const int64_t rows = most[0] * most[1] * most[2];
  need_sizes("y", out.y, {rows, most[3]});
  TORCH_CHECK(out.y.scalar_type() == token_type(type), "y is ", out.y.scalar_type(), ", and tokenDtype ", type, " is ",
              token_type(type));
  need_sizes("groupList", out.groups, {experts, 2});
  for (const auto& [name, t] : {std::pair{"sessionIds", &out.sessions},
                                {"microBatchIds", &out.micro_batches},
                                {"tokenIds", &out.tokens},
                                {"expertOffsets", &out.offsets}}) {
    need_sizes(name, *t, {rows});
  }
  if (type == 2) need_sizes("dynamicScale", out.scale, {rows});
  need_sizes("actualTokenNum", out.count, {1});
  for (const auto& [name, t] : {std::pair{"y", &out.y},
                                {"groupList", &out.groups},
                                {"sessionIds", &out.sessions},
                                {"microBatchIds", &out.micro_batches},
                                {"tokenIds", &out.tokens},
                                {"expertOffsets", &out.offsets}}) {
    TORCH_CHECK(t->is_contiguous(), name, " must be contiguous, for it is written row by row");
  }
}

void batching(const Tensor& context, int64_t experts, IntArrayRef most, int64_t type, int64_t wait, int64_t layers,
              Batch& out) {
  if (wait) ffn_scheduler(context, context_of(context).sessions);
  const Context& c = context_of(context);
  const uint64_t count = c.ffn.count;
  TORCH_CHECK(c.sessions <= most[0] && c.tokens <= most[1] && c.choices <= most[2] && count <= c.sessions,
              "the schedule context has ", count, " of ", c.sessions, " sessions with ", c.tokens, " tokens of ",
              c.choices, " experts, and maxOutShape is ", most);
  for (Tensor* t : {&out.y, &out.groups, &out.sessions, &out.micro_batches, &out.tokens, &out.offsets, &out.count}) {
    t->zero_();
  }
  if (type == 2) out.scale.zero_();
  if (count == 0) return;
  const auto* const layer_of = memory<int32_t>("layer_ids_buf", c.ffn.layers, count * 4);
  const auto* const session_of = memory<int32_t>("session_ids_buf", c.ffn.sessions, count * 4);
  const auto* const micro_batch_of = memory<int32_t>("micro_batch_ids_buf", c.ffn.micro_batches, count * 4);
  const auto* const expert_of = memory<int32_t>("expert_ids_buf", c.ffn.experts, count * choices_of(c) * 4);
  const uint64_t bytes = static_cast<uint64_t>(out.y.size(1) * out.y.element_size());
  const uint64_t place = place_of(c.to_ffn, bytes + (type == 2 ? sizeof(float) : 0));
  const uint64_t of_session = place * choices_of(c) * c.micro_batches;
  const char* const data = memory<char>("token_data_buf", c.ffn.data, of_session * c.sessions);

  struct Token {
    int64_t expert;
    uint64_t at;  // among all choices of the lists
  };
  std::vector<Token> taken;
  const int64_t of_layer = layers ? experts / layers : experts;
  for (uint64_t i = 0; i < count * choices_of(c); i++) {
    if (expert_of[i] < 0 || expert_of[i] >= of_layer) continue;  // a token that is left out
    const int32_t layer = layer_of[i / choices_of(c)];
    TORCH_CHECK(layers == 0 || (layer >= 0 && layer < layers), "the schedule context names layer ", layer, " of ",
                layers);
    taken.push_back({(layers ? layer * of_layer : 0) + expert_of[i], i});
  }
  std::stable_sort(taken.begin(), taken.end(), [](const Token& a, const Token& b) { return a.expert < b.expert; });

  auto* const groups = out.groups.data_ptr<int64_t>();
  int64_t group = -1;
  for (size_t row = 0; row < taken.size(); row++) {
    const Token& t = taken[row];
    const uint64_t i = t.at / choices_of(c), choice = t.at % choices_of(c);
    const int32_t session = session_of[i], micro_batch = micro_batch_of[i];
    TORCH_CHECK(session >= 0 && micro_batch >= 0 && static_cast<uint32_t>(session) < c.sessions &&
                    static_cast<uint32_t>(micro_batch) < c.micro_batches,
                "the schedule context names micro batch ", micro_batch, " of session ", session);
    const char* const token = data + of_session * static_cast<uint64_t>(session) +
                              place * (static_cast<uint64_t>(micro_batch) * choices_of(c) + choice);
    std::memcpy(static_cast<char*>(out.y.data_ptr()) + row * bytes, token, bytes);
    if (type == 2) std::memcpy(out.scale.data_ptr<float>() + row, token + bytes, sizeof(float));
    out.sessions.data_ptr<int32_t>()[row] = session;
    out.micro_batches.data_ptr<int32_t>()[row] = micro_batch;
    out.tokens.data_ptr<int32_t>()[row] = static_cast<int32_t>(choice / c.choices);
    out.offsets.data_ptr<int32_t>()[row] = static_cast<int32_t>(choice % c.choices);
    if (group < 0 || groups[2 * group] != t.expert) groups[2 * ++group] = t.expert;
    groups[2 * group + 1]++;
  }
  out.count.fill_(static_cast<int64_t>(taken.size()));
}

}  // namespace softnpu::ops::kernels
