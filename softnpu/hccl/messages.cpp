// Send, Recv and batches of them. A pair of ranks has a ring of messages in the shared page: small ones carry their bytes there and
// need no waiting receiver, large ones say where they lie, the receiver copies them and the sender waits for that.
// To and from other hosts a message goes by courier (network/courier.h). All transfers of a batch go forward together, so no order
// among them can block. Messages of a pair go in the order of their numbers, whatever streams they stand in: whoever moves a pair on
// rings at both its ends, for another stream of this rank may wait for just that.
#include <cstring>

#include "softnpu/hccl/datatype.h"
#include "softnpu/hccl/network/courier.h"
#include "softnpu/hccl/operation.h"

namespace softnpu::hccl {

class Exchange final : public Operation {
 public:
  Exchange(Communicator& c, Epoch& epoch, const std::vector<Transfer>& transfers, const std::vector<uint32_t>& numbers)
      : Operation(c, epoch, c.limit_ms(), "HCCL_EXEC_TIMEOUT"), staging_(transfers.size()) {
    for (size_t i = 0; i < transfers.size(); ++i) moves_.push_back({transfers[i], numbers[i]});
    for (size_t i = 0; i < moves_.size(); ++i)
      if (const uint32_t peer = transfers[i].peer; !c.hosts_.here(peer))
        couriers_.try_emplace(i, transfers[i], numbers[i], c.rank_, c.members_[peer], *c.wire_, epoch.key,
                              Bell{epoch.board, c.rank_});
  }

  void run() {
    Signal& bell = board_.slot(c_.rank_).bell;
    while (!done()) wait(bell, [&] { return step(); }, *this);
  }

  [[noreturn]] void give_up() override {
    if (deserted_) {
      const Transfer& t = deserted_->transfer;
      fail(HCCL_E_REMOTE, "%s: rank %s %s", describe(t).c_str(), c_.name_of({t.peer}).c_str(),
           farewell_of({t.peer}).c_str());
    }
    for (const Move& m : moves_) {
      if (m.stage == Stage::kDone) continue;
      const Transfer& t = m.transfer;
      if (!its_turn(m))
        fail(HCCL_E_TIMEOUT, "%s: its turn did not come within %s: this rank's earlier %s rank %s has not been done",
             describe(t).c_str(), limit().c_str(), t.send ? "send to" : "receive from", c_.name_of({t.peer}).c_str());
      fail(HCCL_E_TIMEOUT, "%s: rank %s did not %s within %s", describe(t).c_str(), c_.name_of({t.peer}).c_str(),
           t.send ? "receive it" : "send it", limit().c_str());
    }
    fail(HCCL_E_INTERNAL, "an exchange without an open transfer was given up");
  }

 protected:
  bool deserted() override {
    for (const Move& m : moves_) {
      const uint32_t peer = m.transfer.peer;
      if (m.stage == Stage::kDone || farewell(peer) == Left::kNo) continue;
      if (!certain(true, !c_.hosts_.here(peer))) continue;
      deserted_ = &m;
      return true;
    }
    return false;
  }

 private:
  enum class Stage : uint8_t { kWaiting, kPosted, kDone };
  struct Move {
    const Transfer& transfer;
    uint32_t number;
    Stage stage = Stage::kWaiting;
  };

  bool done() const {
    for (const Move& m : moves_)
      if (m.stage != Stage::kDone) return false;
    return true;
  }

  // Goes on with whatever can go on. While the waiting rank spins it looks at the bell alone.
  bool step() {
    const uint32_t now = board_.slot(c_.rank_).bell.value.load(std::memory_order_seq_cst);
    if (now == heard_ && idle_++ < spins) return false;
    heard_ = now;
    bool moved = false;
    for (size_t i = 0; i < moves_.size(); ++i) {
      Move& m = moves_[i];
      if (m.stage == Stage::kDone) continue;
      moved = (!c_.hosts_.here(m.transfer.peer) ? step_courier(i)
               : m.transfer.send                ? step_send(i)
                                                : step_recv(m)) ||
              moved;
    }
    if (moved) idle_ = 0;
    return moved;
  }

  bool its_turn(const Move& m) const {
    const Transfer& t = m.transfer;
    if (!c_.hosts_.here(t.peer)) return true;  // parcels have numbers of their own
    if (t.send) return m.stage == Stage::kPosted || board_.pair(c_.rank_, t.peer).posted.load() == m.number;
    return board_.pair(t.peer, c_.rank_).consumed.load() == m.number;
  }

  void moved_on(std::atomic<uint32_t>& word, uint32_t number, uint32_t peer) {
    word.store(number + 1, std::memory_order_seq_cst);
    ring(board_.slot(peer).bell);
    if (peer != c_.rank_) ring(board_.slot(c_.rank_).bell);
  }

  bool step_send(size_t i) {
    Move& m = moves_[i];
    const Transfer& t = m.transfer;
    Pair& pair = board_.pair(c_.rank_, t.peer);
    const uint32_t consumed = pair.consumed.load(std::memory_order_acquire);
    if (m.stage == Stage::kPosted) {
      if (!reached(consumed, m.number + 1)) return false;
      m.stage = Stage::kDone;
      return true;
    }
    if (pair.posted.load(std::memory_order_acquire) != m.number || m.number - consumed >= kPairDepth) return false;
    Message& message = pair.messages[m.number % kPairDepth];
    message.type = t.type, message.bytes = t.bytes, message.inlined = t.bytes <= kPairInlineBytes;
    if (message.inlined) {
      if (t.bytes) memcpy(message.payload, t.buffer, t.bytes);
    } else {
      message.place = c_.place(t.buffer, t.bytes, &staging_[i]);
      if (staging_[i]) memcpy(staging_[i].data(), t.buffer, t.bytes);
    }
    m.stage = message.inlined ? Stage::kDone : Stage::kPosted;
    moved_on(pair.posted, m.number, t.peer);
    return true;
  }

  bool step_recv(Move& m) {
    const Transfer& t = m.transfer;
    Pair& pair = board_.pair(t.peer, c_.rank_);
    if (pair.consumed.load(std::memory_order_acquire) != m.number ||
        !reached(pair.posted.load(std::memory_order_acquire), m.number + 1))
      return false;
    const Message& message = pair.messages[m.number % kPairDepth];
    if (message.bytes != t.bytes || message.type != static_cast<uint32_t>(t.type))
      differ(t, message.type, message.bytes);
    if (t.bytes) {
      memcpy(t.buffer, message.inlined ? message.payload : c_.resolve(t.peer, message.place, *this), t.bytes);
      if (!message.inlined && aborted()) fail_aborted();  // the sender may have had its buffer back
    }
    m.stage = Stage::kDone;
    moved_on(pair.consumed, m.number, t.peer);
    return true;
  }

  bool step_courier(size_t i) {
    Courier& courier = couriers_.at(i);
    const bool moved =
        courier.step(*this, [&](uint32_t type, uint64_t bytes) { differ(moves_[i].transfer, type, bytes); });
    if (courier.done()) moves_[i].stage = Stage::kDone;
    return moved;
  }

  [[noreturn]] void differ(const Transfer& t, uint32_t type, uint64_t bytes) {
    fail(HCCL_E_PARA, "%s: rank %s sends %s, %llu bytes", describe(t).c_str(), c_.name_of({t.peer}).c_str(),
         type_name(static_cast<HcclDataType>(type)), static_cast<unsigned long long>(bytes));
  }

  std::string describe(const Transfer& t) const {
    return std::string(t.send ? "HcclSend to rank " : "HcclRecv from rank ") + std::to_string(t.peer) + " (" +
           type_name(t.type) + ", " + std::to_string(t.bytes) + " bytes, communicator " + c_.options_.name + ", rank " +
           std::to_string(c_.rank_) + " of " + std::to_string(c_.size()) + ")";
  }

  std::vector<Move> moves_;
  std::vector<Staging> staging_;
  std::map<size_t, Courier> couriers_;
  const Move* deserted_ = nullptr;
  uint32_t heard_ = board_.slot(c_.rank_).bell.value.load() - 1, idle_ = 0;
};

void Communicator::exchange(const std::vector<Transfer>& transfers, const std::vector<uint32_t>& numbers,
                            Epoch& epoch) {
  if (epoch.aborted()) throw epoch.error();
  Exchange(*this, epoch, transfers, numbers).run();
}

}  // namespace softnpu::hccl
