// A large collective over several hosts: within a host its ranks' buffers are read and written where they lie; between hosts pieces
// go from owner to owner (piece.h). Every rank has a few of its pieces under way at once and works while others travel.
#include <algorithm>
#include <deque>

#include "softnpu/hccl/communicator.h"
#include "softnpu/hccl/datatype.h"
#include "softnpu/hccl/network/piece.h"
#include "softnpu/hccl/reduce.h"

namespace softnpu::hccl {
namespace {

constexpr uint64_t kSmallestPiece = 64 * 1024, kLargestPiece = 512 * 1024;
constexpr size_t kUnderWay = 4;

}  // namespace

void Communicator::work_across(const Call& call, Epoch& epoch, uint64_t s, const std::vector<Segment>& plan,
                               std::function<std::string()>* blame, Patience& patience) {
  Board& board = *epoch.board;
  const auto word = static_cast<uint32_t>(s);
  Busy busy(board.slot(rank_).busy,
            s);  // before the office: until that is closed, the wire may write into the ranks' buffers
  PostOffice office(*wire_, epoch.key, word, {epoch.board, rank_});
  Across across{hosts_,
                members_,
                office,
                std::vector<const std::byte*>(size()),
                std::vector<std::byte*>(size()),
                call.op == HCCL_REDUCE_RESERVED ? SplitReduce{} : split_reduce(call.type, call.op),
                element_size(call.type)};
  for (uint32_t r : hosts_.here()) {
    const Post& p = board.post(r, s);
    across.send[r] = p.inlined ? board.payload(r, s) : resolve(r, p.send, patience);
    across.recv[r] = resolve(r, p.recv, patience);
  }

  // About four pieces for each rank of the smallest host.
  uint64_t total = 0;
  for (const Segment& segment : plan) total += segment.bytes;
  size_t lanes = size();
  for (uint32_t h = 0; h < hosts_.count(); ++h) lanes = std::min(lanes, hosts_.on(h).size());
  const uint64_t most = std::clamp(total / (4 * lanes), kSmallestPiece, kLargestPiece) / 4096 * 4096;

  std::deque<Piece> mine, stay;  // what travels is begun first
  uint32_t number = 0;
  for (const Segment& segment : plan)
    for (uint64_t at = 0; at < segment.bytes; at += most, ++number)
      if (hosts_.owner(hosts_.mine(), number) == rank_) {
        Piece piece(across, segment, at, std::min(most, segment.bytes - at), number);
        if (piece.concerns(hosts_)) (piece.stays() ? stay : mine).push_back(std::move(piece));
      }
  for (Piece& piece : stay) mine.push_back(std::move(piece));

  std::list<Piece> under_way;
  *blame = [&] {
    std::vector<bool> waited(size());
    for (const Piece& piece : under_way) piece.blame(&waited);
    if (under_way.empty())  // for the others of this host
      for (uint32_t r : hosts_.here()) waited[r] = r != rank_ && board.slot(r).busy.value.load() != finished(s);
    return ranks_where([&](uint32_t r) { return waited[r]; });
  };
  Signal& bell = office.bell();
  while (!mine.empty() || !under_way.empty()) {
    const uint32_t heard = bell.value.load(std::memory_order_seq_cst);
    if (board.aborted()) throw board.error();
    bool moved = false;
    if (!mine.empty() && (under_way.size() < kUnderWay || mine.front().direct())) {
      under_way.push_back(std::move(mine.front()));
      mine.pop_front();
      under_way.back().start();
      moved = true;
    }
    for (Piece& piece : under_way) moved = piece.step(patience) || moved;
    moved = under_way.remove_if([](const Piece& p) { return p.done(); }) > 0 || moved;
    if (!moved) wait(bell, [&] { return bell.value.load(std::memory_order_seq_cst) != heard; }, patience);
  }
  busy.done();

  // The host's ranks go on together: each wrote into all buffers.
  const auto here = static_cast<uint32_t>(hosts_.here().size());
  Turn& turn = board.turn(s);
  open_word(turn.completed, word);
  if (static_cast<uint32_t>(turn.completed.fetch_add(1, std::memory_order_acq_rel)) + 1 == here)
    set(turn.finished, word + 1);
  wait(turn.finished, [&] { return reached(turn.finished.value.load(std::memory_order_acquire), word + 1); }, patience);
  *blame = nullptr;
}

}  // namespace softnpu::hccl
