// A collective carried out on a stream's own thread. Small messages: the payloads lie in the shared page and every rank works out
// its own result. Large ones: every rank maps every buffer, and whoever runs takes the next chunk, whichever rank it belongs to;
// a rank that the scheduler keeps waiting holds up nobody. The order within a sum is that of the ranks: the same bits always.
#include <algorithm>
#include <cstring>

#include "hccl/soft.h"
#include "softnpu/hccl/datatype.h"
#include "softnpu/hccl/operation.h"
#include "softnpu/hccl/reduce.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

constexpr uint64_t kSmallestChunk = 32 * 1024, kLargestChunk = 512 * 1024;

}  // namespace

// This rank's buffers as the others see them.
struct Communicator::Buffers {
  Staging send, recv;
};

std::string Communicator::describe(const Call& call) const {
  std::string text = std::string(call.name) + " (";
  if (call.kind != HCCL_CMD_BARRIER) text += std::string(type_name(call.type)) + " x " + std::to_string(call.count);
  if (call.op != HCCL_REDUCE_RESERVED) text += std::string(", ") + op_name(call.op);
  return text + ", communicator " + options_.name + ", rank " + std::to_string(rank_) + " of " +
         std::to_string(size()) + ")";
}

namespace {

bool arrived(const Board& board, uint32_t rank, uint64_t s) {
  return reached(board.slot(rank).posted.value.load(std::memory_order_acquire), static_cast<uint32_t>(s + 1));
}

}  // namespace

// Of one collective: it misses ranks that have not come, and then those that do not go on.
class Collective final : public Operation {
 public:
  Collective(Communicator& c, Epoch& epoch, const std::atomic<int64_t>& limit_ms, const char* limit_name,
             const Call& call, uint64_t s)
      : Operation(c, epoch, limit_ms, limit_name), call_(call), s_(s) {}

  [[noreturn]] void give_up() override {
    if (!gone_.empty())
      fail(HCCL_E_REMOTE, "%s: rank %s %s", c_.describe(call_).c_str(), c_.name_of(gone_).c_str(),
           farewell_of(gone_).c_str());
    // A host's ranks come to this host's board together: which of them did not come, only they can say.
    const auto far = c_.control_ ? c_.ask_who_came(epoch_, s_) : Communicator::Presence{};
    // Even those of this host are asked by way of the root; where the root is this process, that way is sound.
    if (c_.control_ && far.spoke.empty() && c_.control_->root() != c_.members_[c_.rank_].process.id)
      fail(HCCL_E_TIMEOUT, "%s: it was not done within %s, and %s, which passes on what the hosts say, says nothing",
           c_.describe(call_).c_str(), limit().c_str(), c_.root_name().c_str());
    std::string who = c_.ranks_where([&](uint32_t r) { return !arrived(board_, r, s_) && !far.came.count(r); });
    const char* what = "did not call it";
    if (who.empty())
      what = "does not go on",
      who =
          blame ? blame() : c_.ranks_where([&](uint32_t r) { return board_.slot(r).busy.value.load() == working(s_); });
    std::string silent;
    for (uint32_t h = 0; c_.control_ && h < c_.hosts_.count(); ++h) {
      const auto& ranks = c_.hosts_.on(h);
      if (h == c_.hosts_.mine() ||
          std::any_of(ranks.begin(), ranks.end(), [&](uint32_t r) { return far.spoke.count(r); }))
        continue;
      silent += (silent.empty() ? "; nothing is heard from " : ", ") + std::string(c_.members_[ranks[0]].address);
    }
    fail(HCCL_E_TIMEOUT, "%s: rank %s %s within %s%s", c_.describe(call_).c_str(), who.c_str(), what, limit().c_str(),
         silent.c_str());
  }

  std::function<std::string()> blame;  // once all have come: who holds it up, if that is not who works on a chunk

 protected:
  bool deserted() override {
    gone_.clear();
    bool far = false;
    for (uint32_t r = 0; r < c_.size(); ++r) {
      const Left how = farewell(r);  // before what it did: it leaves last
      if (how == Left::kNo) continue;
      const bool stuck =
          how >= Left::kEnded && board_.slot(r).busy.value.load(std::memory_order_seq_cst) == working(s_);
      if (arrived(board_, r, s_) && !stuck) continue;
      gone_.push_back(r);
      far = far || !c_.hosts_.here(r);
    }
    if (certain(!gone_.empty(), far)) return true;
    gone_.clear();
    return false;
  }

 private:
  const Call& call_;
  const uint64_t s_;
  std::vector<uint32_t> gone_;
};

// What another rank posted against what we ask for.
void Communicator::compare(const Call& call, const Board& board, uint64_t s, uint32_t other) const {
  const Post& p = board.post(other, s);
  const auto kind = static_cast<uint32_t>(call.kind);
  auto differs = [&](const char* what, const std::string& theirs, const std::string& ours) {
    fail(HCCL_E_PARA, "%s: rank %s disagrees about the %s: %s, here %s", describe(call).c_str(),
         name_of({other}).c_str(), what, theirs.c_str(), ours.c_str());
  };
  if (p.kind != kind)
    differs("collective", collective_name(static_cast<HcclCMDType>(p.kind)), collective_name(call.kind));
  if (p.type != static_cast<uint32_t>(call.type))
    differs("data type", type_name(static_cast<HcclDataType>(p.type)), type_name(call.type));
  if (p.op != static_cast<uint32_t>(call.op))
    differs("reduction", op_name(static_cast<HcclReduceOp>(p.op)), op_name(call.op));
  if (p.root != call.root) differs("root", std::to_string(p.root), std::to_string(call.root));
  if (!call.uneven && p.count != call.count) differs("count", std::to_string(p.count), std::to_string(call.count));
}

void Communicator::execute(const Call& call, Epoch& epoch) {
  const int64_t said = call.limit_ms ? *call.limit_ms : ANYCEND_HCCL_OWN_LIMIT;
  if (said == ANYCEND_HCCL_NOT_ENTERED) return;
  if (said == ANYCEND_HCCL_OWN_LIMIT) return execute(call, epoch, limit_ms_, "HCCL_EXEC_TIMEOUT");
  const std::atomic<int64_t> own = said;
  execute(call, epoch, own, "the call's own limit");
}

void Communicator::execute(const Call& call, Epoch& epoch, const std::atomic<int64_t>& limit_ms,
                           const char* limit_name) {
  Board& board = *epoch.board;
  const uint64_t s = epoch.sequence++;
  const auto n = size(), word = static_cast<uint32_t>(s);
  Collective patience(*this, epoch, limit_ms, limit_name, call, s);
  auto until = [&](Signal& signal, uint32_t value) {
    wait(signal, [&] { return reached(signal.value.load(std::memory_order_acquire), value); }, patience);
  };

  if (epoch.aborted()) throw epoch.error();
  for (uint32_t r : hosts_.here()) until(board.slot(r).done, word + 1 - kDepth);

  const bool small = call.largest_send <= kInlineBytes && call.largest_send * n <= 2 * kInlineBytes;
  Buffers mine;
  Post& post = board.post(rank_, s);
  post = {static_cast<uint32_t>(call.kind),
          static_cast<uint32_t>(call.type),
          static_cast<uint32_t>(call.op),
          call.root,
          call.count,
          small ? 1u : 0u,
          small ? static_cast<uint32_t>(call.send_bytes) : 0u,
          {},
          {}};
  if (small) {
    if (call.send_bytes) memcpy(board.payload(rank_, s), call.send, call.send_bytes);
  } else {
    post.send = place(call.send, call.send_bytes, &mine.send);
    if (mine.send) memcpy(mine.send.data(), call.send, call.send_bytes);
  }
  if (!small || call.uneven) post.recv = place(call.recv, call.recv_bytes, &mine.recv);
  if (mine.recv) memcpy(mine.recv.data(), call.recv, call.recv_bytes);  // what nobody writes must stay as it was
  if (!call.table.empty()) memcpy(board.table(rank_, s), call.table.data(), call.table.size() * sizeof(uint64_t));
  Turn& turn = board.turn(s);
  const uint32_t everybody = complete(s, n);
  set(board.slot(rank_).posted, word + 1);
  if (turn.arrived.value.fetch_add(1, std::memory_order_seq_cst) + 1 == everybody) notify(turn.arrived);

  if (control_ && rank_ == host_leader()) mirror(call, epoch, s, patience);

  const Needs needs = small ? call.needs : Needs::kEverybody;
  if (needs == Needs::kEverybody) {
    until(turn.arrived, everybody);
    for (uint32_t r = 0; r < n; ++r) compare(call, board, s, r);
  } else if (needs == Needs::kRoot && call.root != rank_) {
    until(board.slot(call.root).posted, word + 1);
    compare(call, board, s, call.root);
  }

  if (call.plan) {
    bool all_small = small;
    if (call.uneven)
      for (uint32_t r = 0; r < n; ++r) all_small = all_small && board.post(r, s).inlined;
    struct Context {
      const Board* board;
      uint64_t s;
    } context{&board, s};
    const Tables tables{[](const void* c, uint32_t r) -> const uint64_t* {
                          const auto* at = static_cast<const Context*>(c);
                          return at->board->table(r, at->s);
                        },
                        &context};
    std::vector<Segment> plan;
    call.plan(call, n, tables, plan);
    if (all_small)
      work_inline(call, board, s, plan);
    else if (control_)
      work_across(call, epoch, s, plan, &patience.blame, patience);
    else
      work_in_place(call, board, s, plan, patience);
    if (mine.recv && !all_small) memcpy(call.recv, mine.recv.data(), call.recv_bytes);
  }
  set(board.slot(rank_).done, word + 1);
}

void Communicator::work_inline(const Call& call, const Board& board, uint64_t s, const std::vector<Segment>& plan) {
  const uint32_t n = size();
  const void* inputs[256];
  std::vector<const void*> many;
  const void** in = inputs;
  if (n > 256) many.resize(n), in = many.data();
  for (const Segment& segment : plan) {
    if ((segment.to != kAll && segment.to != rank_) || !segment.bytes) continue;
    void* out = static_cast<std::byte*>(call.recv) + segment.to_offset;
    if (segment.from == kAll) {
      for (uint32_t r = 0; r < n; ++r) in[r] = board.payload(r, s) + segment.from_offset;
      reduce_fn(call.type, call.op)(in, n, &out, 1, segment.bytes / element_size(call.type));
    } else if (segment.from != rank_ || out != static_cast<const std::byte*>(call.send) + segment.from_offset) {
      memcpy(out, board.payload(segment.from, s) + segment.from_offset, segment.bytes);
    }
  }
}

void Communicator::work_in_place(const Call& call, const Board& board, uint64_t s, const std::vector<Segment>& plan,
                                 Patience& patience) {
  const auto word = static_cast<uint32_t>(s);
  const uint32_t n = size();
  std::vector<const std::byte*> send;
  std::vector<std::byte*> recv(n);
  // Only for a chunk of its own: until that is done nobody goes on, and while nobody goes on all memory is there to be mapped.
  auto find_buffers = [&] {
    for (uint32_t r = 0; r < n; ++r) {
      const Post& p = board.post(r, s);
      send.push_back(p.inlined ? board.payload(r, s) : resolve(r, p.send, patience));
      recv[r] = resolve(r, p.recv, patience);
    }
  };
  uint64_t total_bytes = 0;
  for (const Segment& segment : plan) total_bytes += segment.bytes;
  // About four chunks a rank, so that a slow one can be helped; a multiple of every element's size and of a cache line.
  const uint64_t chunk = std::clamp(total_bytes / (4 * n), kSmallestChunk, kLargestChunk) / 4096 * 4096;
  uint32_t total = 0;
  for (const Segment& segment : plan) total += static_cast<uint32_t>((segment.bytes + chunk - 1) / chunk);
  if (!total) return;

  Turn& turn = board.turn(s);
  open_word(turn.claimed, word);
  open_word(turn.completed, word);
  const ReduceFn reduce = call.op == HCCL_REDUCE_RESERVED ? nullptr : reduce_fn(call.type, call.op);
  const size_t element = element_size(call.type);
  std::vector<const void*> inputs(n);
  std::vector<void*> outputs(n);
  Busy busy(board.slot(rank_).busy, s);
  size_t at = 0;  // the segment that holds the claimed chunk, and the number of its first chunk
  uint32_t first = 0, did = 0;
  for (;;) {
    const auto index = static_cast<uint32_t>(turn.claimed.fetch_add(1, std::memory_order_acq_rel));
    if (index >= total) break;
    if (send.empty()) find_buffers();
    if (board.aborted()) throw board.error();  // after busy was set: who gave up before has its buffers back
    while (index - first >= (plan[at].bytes + chunk - 1) / chunk)
      first += static_cast<uint32_t>((plan[at++].bytes + chunk - 1) / chunk);
    const Segment& segment = plan[at];
    const uint64_t offset = (index - first) * chunk, bytes = std::min(chunk, segment.bytes - offset);
    size_t targets = 0;
    if (segment.to == kAll)
      for (uint32_t r = 0; r < n; ++r) outputs[targets++] = recv[r] + segment.to_offset + offset;
    else
      outputs[targets++] = recv[segment.to] + segment.to_offset + offset;
    if (segment.from == kAll) {
      for (uint32_t r = 0; r < n; ++r) inputs[r] = send[r] + segment.from_offset + offset;
      reduce(inputs.data(), n, outputs.data(), targets, bytes / element);
    } else {
      const void* input = send[segment.from] + segment.from_offset + offset;
      for (size_t i = 0; i < targets; ++i)
        if (outputs[i] != input) memcpy(outputs[i], input, bytes);
    }
    ++did;
  }
  busy.done();
  if (did && static_cast<uint32_t>(turn.completed.fetch_add(did, std::memory_order_acq_rel)) + did == total)
    set(turn.finished, word + 1);
  wait(turn.finished, [&] { return reached(turn.finished.value.load(std::memory_order_acquire), word + 1); }, patience);
}

}  // namespace softnpu::hccl
