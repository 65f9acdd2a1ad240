// Send, Recv and batches of them. A pair of ranks has a ring of messages in the shared page: small ones carry their bytes there and
// need no waiting receiver, large ones say where they lie, the receiver copies them and the sender waits for that.
// To and from other hosts a message goes by courier (network/courier.h). All transfers of a batch go forward together, so no order among them can block.
#include <cstring>

#include "softnpu/hccl/communicator.h"
#include "softnpu/hccl/datatype.h"
#include "softnpu/hccl/network/courier.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

enum class Stage : uint8_t { kWaiting, kPosted, kDone };

}  // namespace

std::vector<uint32_t> Communicator::take_message_numbers(const std::vector<Transfer>& transfers) {
  std::lock_guard lock(numbers_mutex_);
  std::vector<uint32_t> numbers;
  for (const Transfer& t : transfers) numbers.push_back((t.send ? sent_ : received_)[t.peer]++);
  return numbers;
}

void Communicator::exchange(const std::vector<Transfer>& transfers, const std::vector<uint32_t>& numbers) {
  Board& board = *board_;
  const auto limit = options_.exec_timeout;
  const Deadline deadline = Clock::now() + limit;
  std::vector<Stage> stages(transfers.size(), Stage::kWaiting);
  std::vector<Staging> staging(transfers.size());
  if (aborted()) throw error();

  auto describe = [&](const Transfer& t) {
    return std::string(t.send ? "HcclSend to rank " : "HcclRecv from rank ") + std::to_string(t.peer) + " (" +
           type_name(t.type) + ", " + std::to_string(t.bytes) + " bytes, communicator " + options_.name + ", rank " +
           std::to_string(rank_) + " of " + std::to_string(size()) + ")";
  };
  LeftBehind left_behind;
  const std::function<void()> late = [&] {
    if (failed_.load(std::memory_order_acquire)) throw error();
    for (size_t i = 0; i < transfers.size(); ++i) {
      if (stages[i] == Stage::kDone) continue;
      const Transfer& t = transfers[i];
      if (left_behind.certain(board.slot(t.peer).left.load(std::memory_order_acquire), !hosts_.here(t.peer)))
        fail(HCCL_E_REMOTE, "%s: rank %u has left the communicator", describe(t).c_str(), t.peer);
      if (limit.count() && Clock::now() >= deadline)
        fail(HCCL_E_TIMEOUT, "%s: rank %u did not %s within %lld s (HCCL_EXEC_TIMEOUT)", describe(t).c_str(), t.peer,
             t.send ? "receive it" : "send it", static_cast<long long>(limit.count()));
    }
  };

  auto differ = [&](const Transfer& t, uint32_t type, uint64_t bytes) {
    fail(HCCL_E_PARA, "%s: rank %u sends %s, %llu bytes", describe(t).c_str(), t.peer,
         type_name(static_cast<HcclDataType>(type)), static_cast<unsigned long long>(bytes));
  };

  // True when the transfer moved on.
  auto step_send = [&](size_t i) {
    const Transfer& t = transfers[i];
    Pair& pair = board.pair(rank_, t.peer);
    const uint32_t number = numbers[i], consumed = pair.consumed.load(std::memory_order_acquire);
    if (stages[i] == Stage::kPosted) {
      if (!reached(consumed, number + 1)) return false;
      stages[i] = Stage::kDone;
      return true;
    }
    if (pair.posted.load(std::memory_order_acquire) != number || number - consumed >= kPairDepth) return false;
    Message& message = pair.messages[number % kPairDepth];
    message.type = t.type, message.bytes = t.bytes, message.inlined = t.bytes <= kPairInlineBytes;
    if (message.inlined) {
      if (t.bytes) memcpy(message.payload, t.buffer, t.bytes);
    } else {
      message.place = place(t.buffer, t.bytes, &staging[i]);
      if (staging[i]) memcpy(staging[i].data(), t.buffer, t.bytes);
    }
    stages[i] = message.inlined ? Stage::kDone : Stage::kPosted;
    pair.posted.store(number + 1, std::memory_order_seq_cst);
    Slot& there = board.slot(t.peer);
    there.bell.value.fetch_add(1, std::memory_order_seq_cst);
    Board::notify(there.bell);
    return true;
  };
  auto step_recv = [&](size_t i) {
    const Transfer& t = transfers[i];
    Pair& pair = board.pair(t.peer, rank_);
    const uint32_t number = numbers[i];
    if (pair.consumed.load(std::memory_order_acquire) != number ||
        !reached(pair.posted.load(std::memory_order_acquire), number + 1))
      return false;
    const Message& message = pair.messages[number % kPairDepth];
    if (message.bytes != t.bytes || message.type != static_cast<uint32_t>(t.type))
      differ(t, message.type, message.bytes);
    if (t.bytes) memcpy(t.buffer, message.inlined ? message.payload : resolve(t.peer, message.place, late), t.bytes);
    stages[i] = Stage::kDone;
    pair.consumed.store(number + 1, std::memory_order_seq_cst);
    Slot& there = board.slot(t.peer);
    there.bell.value.fetch_add(1, std::memory_order_seq_cst);
    Board::notify(there.bell);
    return true;
  };

  std::map<size_t, Courier> couriers;
  for (size_t i = 0; i < transfers.size(); ++i)
    if (const uint32_t peer = transfers[i].peer; !hosts_.here(peer))
      couriers.try_emplace(i, transfers[i], numbers[i], rank_, members_[peer], *wire_, board_key_, Bell{board_, rank_});
  auto step_courier = [&](size_t i) {
    const bool moved =
        couriers.at(i).step(late, [&](uint32_t type, uint64_t bytes) { differ(transfers[i], type, bytes); });
    if (couriers.at(i).done()) stages[i] = Stage::kDone;
    return moved;
  };

  Signal& bell = board.slot(rank_).bell;
  for (;;) {
    const uint32_t heard = bell.value.load(std::memory_order_seq_cst);
    bool moved = false, all = true;
    for (size_t i = 0; i < transfers.size(); ++i) {
      if (stages[i] != Stage::kDone && (!hosts_.here(transfers[i].peer) ? step_courier(i)
                                        : transfers[i].send             ? step_send(i)
                                                                        : step_recv(i)))
        moved = true;
      all = all && stages[i] == Stage::kDone;
    }
    if (all) return;
    if (!moved) board.wait(bell, [&](uint32_t v) { return v != heard; }, late);
  }
}

}  // namespace softnpu::hccl
