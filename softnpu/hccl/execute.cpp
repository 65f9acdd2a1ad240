// A collective carried out on a stream's own thread. Small messages: the payloads lie in the shared page and every rank works out
// its own result. Large ones: every rank maps every buffer, and whoever runs takes the next chunk, whichever rank it belongs to;
// a rank that the scheduler keeps waiting holds up nobody. The order within a sum is that of the ranks: the same bits always.
#include <algorithm>
#include <cstring>

#include "softnpu/hccl/communicator.h"
#include "softnpu/hccl/datatype.h"
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

bool Communicator::arrived(uint32_t rank, uint32_t s) const {
  return reached(board_->slot(rank).posted.value.load(std::memory_order_acquire), s + 1);
}

std::string Communicator::missing(uint32_t s) {
  // A host's ranks come to this host's board together: which of them did not come, only they can say.
  const std::set<uint32_t> elsewhere = control_ ? ask_who_came(s) : std::set<uint32_t>();
  return ranks_where([&](uint32_t r) { return !arrived(r, s) && !elsewhere.count(r); });
}

// What another rank posted against what we ask for.
void Communicator::compare(const Call& call, uint32_t s, uint32_t other) const {
  const Post& p = board_->post(other, s);
  const auto kind = static_cast<uint32_t>(call.kind);
  auto differs = [&](const char* what, const std::string& theirs, const std::string& ours) {
    fail(HCCL_E_PARA, "%s: rank %u disagrees about the %s: %s, here %s", describe(call).c_str(), other, what,
         theirs.c_str(), ours.c_str());
  };
  if (p.kind != kind) differs("collective (HcclCMDType)", std::to_string(p.kind), std::to_string(kind));
  if (p.type != static_cast<uint32_t>(call.type))
    differs("data type", type_name(static_cast<HcclDataType>(p.type)), type_name(call.type));
  if (p.op != static_cast<uint32_t>(call.op))
    differs("reduction", op_name(static_cast<HcclReduceOp>(p.op)), op_name(call.op));
  if (p.root != call.root) differs("root", std::to_string(p.root), std::to_string(call.root));
  if (!call.uneven && p.count != call.count) differs("count", std::to_string(p.count), std::to_string(call.count));
}

void Communicator::execute(const Call& call, std::chrono::seconds limit, const char* limit_name) {
  Board& board = *board_;
  const uint32_t s = sequence_++, n = size();
  const Deadline deadline = Clock::now() + limit;
  std::function<std::string()> blame;
  LeftBehind left_behind;
  const std::function<void()> late = [&] {
    if (failed_.load(std::memory_order_acquire)) throw error();
    bool far = false;
    const std::string left = ranks_where([&](uint32_t r) {
      const bool is = !arrived(r, s) && board.slot(r).left.load(std::memory_order_acquire);
      far = far || (is && !hosts_.here(r));
      return is;
    });
    if (left_behind.certain(!left.empty(), far))
      fail(HCCL_E_REMOTE, "%s: rank %s has left the communicator", describe(call).c_str(), left.c_str());
    if (limit.count() == 0 || Clock::now() < deadline) return;
    std::string who = missing(s);
    const char* what = "did not call it";
    if (who.empty())
      what = "does not go on",
      who = blame ? blame() : ranks_where([&](uint32_t r) { return board.slot(r).busy.load() == s + 1; });
    fail(HCCL_E_TIMEOUT, "%s: rank %s %s within %lld s (%s)", describe(call).c_str(), who.c_str(), what,
         static_cast<long long>(limit.count()), limit_name);
  };

  if (aborted()) throw error();
  for (uint32_t r : hosts_.here())
    board.wait(board.slot(r).done, [&](uint32_t v) { return reached(v, s + 1 - kDepth); }, late);

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
  const uint32_t everybody = (s / kDepth + 1) * n;
  Board::set(board.slot(rank_).posted, s + 1);
  if (turn.arrived.value.fetch_add(1, std::memory_order_seq_cst) + 1 == everybody) Board::notify(turn.arrived);

  if (control_ && rank_ == host_leader()) mirror(call, s, late);

  const Needs needs = small ? call.needs : Needs::kEverybody;
  if (needs == Needs::kEverybody) {
    board.wait(turn.arrived, [&](uint32_t v) { return reached(v, everybody); }, late);
    for (uint32_t r = 0; r < n; ++r) compare(call, s, r);
  } else if (needs == Needs::kRoot && call.root != rank_) {
    board.wait(board.slot(call.root).posted, [&](uint32_t v) { return reached(v, s + 1); }, late);
    compare(call, s, call.root);
  }

  if (call.plan) {
    bool all_small = small;
    if (call.uneven)
      for (uint32_t r = 0; r < n; ++r) all_small = all_small && board.post(r, s).inlined;
    struct Context {
      const Board* board;
      uint32_t s;
    } context{&board, s};
    const Tables tables{[](const void* c, uint32_t r) -> const uint64_t* {
                          const auto* at = static_cast<const Context*>(c);
                          return at->board->table(r, at->s);
                        },
                        &context};
    std::vector<Segment> plan;
    call.plan(call, n, tables, plan);
    if (all_small)
      work_inline(call, s, plan);
    else if (control_)
      work_across(call, s, plan, &blame, late);
    else
      work_in_place(call, s, plan, mine, late);
    if (mine.recv && !all_small) memcpy(call.recv, mine.recv.data(), call.recv_bytes);
  }
  Board::set(board.slot(rank_).done, s + 1);
}

void Communicator::work_inline(const Call& call, uint32_t s, const std::vector<Segment>& plan) {
  const uint32_t n = size();
  const void* inputs[256];
  std::vector<const void*> many;
  const void** in = inputs;
  if (n > 256) many.resize(n), in = many.data();
  for (const Segment& segment : plan) {
    if ((segment.to != kAll && segment.to != rank_) || !segment.bytes) continue;
    void* out = static_cast<std::byte*>(call.recv) + segment.to_offset;
    if (segment.from == kAll) {
      for (uint32_t r = 0; r < n; ++r) in[r] = board_->payload(r, s) + segment.from_offset;
      reduce_fn(call.type, call.op)(in, n, &out, 1, segment.bytes / element_size(call.type));
    } else if (segment.from != rank_ || out != static_cast<const std::byte*>(call.send) + segment.from_offset) {
      memcpy(out, board_->payload(segment.from, s) + segment.from_offset, segment.bytes);
    }
  }
}

void Communicator::work_in_place(const Call& call, uint32_t s, const std::vector<Segment>& plan, const Buffers&,
                                 const std::function<void()>& late) {
  Board& board = *board_;
  const uint32_t n = size();
  std::vector<const std::byte*> send(n);
  std::vector<std::byte*> recv(n);
  for (uint32_t r = 0; r < n; ++r) {
    const Post& p = board.post(r, s);
    send[r] = p.inlined ? board.payload(r, s) : resolve(r, p.send, late);
    recv[r] = resolve(r, p.recv, late);
  }
  uint64_t total_bytes = 0;
  for (const Segment& segment : plan) total_bytes += segment.bytes;
  // About four chunks a rank, so that a slow one can be helped; a multiple of every element's size and of a cache line.
  const uint64_t chunk = std::clamp(total_bytes / (4 * n), kSmallestChunk, kLargestChunk) / 4096 * 4096;
  uint32_t total = 0;
  for (const Segment& segment : plan) total += static_cast<uint32_t>((segment.bytes + chunk - 1) / chunk);
  if (!total) return;

  Turn& turn = board.turn(s);
  open_word(turn.claimed, s);
  open_word(turn.completed, s);
  const ReduceFn reduce = call.op == HCCL_REDUCE_RESERVED ? nullptr : reduce_fn(call.type, call.op);
  const size_t element = element_size(call.type);
  std::vector<const void*> inputs(n);
  std::vector<void*> outputs(n);
  board.slot(rank_).busy.store(s + 1, std::memory_order_relaxed);
  size_t at = 0;  // the segment that holds the claimed chunk, and the number of its first chunk
  uint32_t first = 0, did = 0;
  for (;;) {
    const auto index = static_cast<uint32_t>(turn.claimed.fetch_add(1, std::memory_order_acq_rel));
    if (index >= total) break;
    if (board.aborted()) throw error();
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
  board.slot(rank_).busy.store(0, std::memory_order_relaxed);
  if (did && static_cast<uint32_t>(turn.completed.fetch_add(did, std::memory_order_acq_rel)) + did == total)
    Board::set(turn.finished, s + 1);
  board.wait(turn.finished, [&](uint32_t v) { return reached(v, s + 1); }, late);
}

}  // namespace softnpu::hccl
