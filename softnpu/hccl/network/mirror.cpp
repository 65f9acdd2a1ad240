// The ranks of other hosts on this host's board: each host's leader sends what its ranks posted, with the counts and the small
// payloads, to the other leaders, which write it where those ranks would have written it themselves. So ranks on other hosts are
// compared like those of this one, and a small collective is worked out by everybody from the board, the same bits everywhere.
#include <cstring>

#include "softnpu/hccl/communicator.h"
#include "softnpu/hccl/network/post_office.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {

void Communicator::mirror(const Call& call, Epoch& epoch, uint64_t s, Patience& patience) {
  Board& board = *epoch.board;
  const uint32_t n = size(), mine = hosts_.mine(), word = static_cast<uint32_t>(s);
  // Whether there are tables each host says for itself: it may have called another collective, which compare() then reports.
  const size_t all_tables = 4 * n * sizeof(uint64_t), most = sizeof(Post) + all_tables + kInlineBytes;
  PostOffice office(*wire_, epoch.key, word, {epoch.board, rank_});
  std::vector<ParcelPtr> from(hosts_.count());
  for (uint32_t h = 0; h < hosts_.count(); ++h)
    if (h != mine)
      from[h] = office.receive(Mail::kPosts, h, rank_, 0,
                               std::make_shared<Block>(sizeof(uint64_t) + hosts_.on(h).size() * most));

  for (uint32_t r : hosts_.here()) {
    Signal& posted = board.slot(r).posted;
    wait(posted, [&] { return reached(posted.value.load(std::memory_order_acquire), word + 1); }, patience);
  }
  auto block = std::make_shared<Block>(sizeof(uint64_t) + hosts_.here().size() * most);
  size_t at = 0;
  auto put = [&](const void* data, size_t bytes) {
    memcpy(block->data() + at, data, bytes);
    at += bytes;
  };
  const uint64_t table = call.uneven ? all_tables : 0;
  put(&table, sizeof table);
  for (uint32_t r : hosts_.here()) {
    const Post& post = board.post(r, s);
    put(&post, sizeof post);
    put(board.table(r, s), table);
    put(board.payload(r, s), post.bytes);
  }
  for (uint32_t h = 0; h < hosts_.count(); ++h)
    if (h != mine) {
      const uint32_t to = hosts_.leader(h);
      office.send(Mail::kPosts, mine, to, 0, members_[to].process.id, block, at);
    }

  Turn& turn = board.turn(s);
  for (uint32_t h = 0; h < hosts_.count(); ++h) {
    if (h == mine) continue;
    office.wait(*from[h], patience);
    const std::byte* data = from[h]->block->data();
    uint64_t their_table;
    memcpy(&their_table, data, sizeof their_table), data += sizeof their_table;
    for (uint32_t r : hosts_.on(h)) {
      Post& post = board.post(r, s);
      memcpy(&post, data, sizeof post), data += sizeof post;
      if (their_table > all_tables || post.bytes > kInlineBytes)
        fail(HCCL_E_REMOTE, "rank %u runs another version of this library", hosts_.leader(h));
      memcpy(board.table(r, s), data, their_table), data += their_table;
      memcpy(board.payload(r, s), data, post.bytes), data += post.bytes;
      set(board.slot(r).posted, word + 1);
    }
    turn.arrived.value.fetch_add(static_cast<uint32_t>(hosts_.on(h).size()), std::memory_order_seq_cst);
  }
  notify(turn.arrived);
}

}  // namespace softnpu::hccl
