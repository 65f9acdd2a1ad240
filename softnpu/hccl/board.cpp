// See board.h.
#include "softnpu/hccl/board.h"

#include <sys/mman.h>

#include <cstring>
#include <thread>

namespace softnpu::hccl {

struct Board::Head {
  Signal abort;                       // an HcclResult; 0: all is well
  std::atomic<uint32_t> abort_owner;  // who writes the text: the first to set it
  char abort_text[1024];
};

namespace {

constexpr size_t align_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

}  // namespace

Board::Board(Fd fd, uint32_t ranks) : fd_(std::move(fd)), ranks_(ranks) {
  size_t at = 0;
  auto place = [&](size_t bytes) {
    const size_t here = at;
    at = align_up(at + bytes, 4096);
    return here;
  };
  const size_t head = place(sizeof(Head)), turns = place(sizeof(Turn) * kDepth), slots = place(sizeof(Slot) * ranks),
               tables = place(sizeof(uint64_t) * 4 * ranks * ranks * kDepth),
               pairs = place(sizeof(Pair) * ranks * ranks), payloads = place(kInlineBytes * kDepth * ranks);
  size_ = at;
  if (!fd_) fd_ = make_memfd("anycend-hccl-board", size_);
  void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_.get(), 0);
  if (mapped == MAP_FAILED)
    fail(HCCL_E_MEMORY, "cannot map the communicator's shared page (%zu bytes): %s", size_, strerror(errno));
  madvise(mapped, size_, MADV_DONTFORK);
  base_ = static_cast<std::byte*>(mapped);
  head_ = reinterpret_cast<Head*>(base_ + head);
  turns_ = reinterpret_cast<Turn*>(base_ + turns);
  slots_ = reinterpret_cast<Slot*>(base_ + slots);
  tables_ = reinterpret_cast<uint64_t*>(base_ + tables);
  pairs_ = reinterpret_cast<Pair*>(base_ + pairs);
  payloads_ = base_ + payloads;
  // About 60 us of looking where each rank can have a core of its own (a sleeper takes as long to wake); else the core is better
  // given away at once.
  spins_ = ranks <= std::thread::hardware_concurrency() ? 2500 : 20;
}

std::shared_ptr<Board> Board::create(uint32_t ranks) {
  const std::shared_ptr<Board> board(new Board(Fd(), ranks));
  board->begin();
  return board;
}
std::shared_ptr<Board> Board::map(Fd memfd, uint32_t ranks) {
  return std::shared_ptr<Board>(new Board(std::move(memfd), ranks));
}
Board::~Board() { munmap(base_, size_); }

// In one order with Slot::busy (Communicator::settle).
bool Board::aborted() const noexcept { return head_->abort.value.load(std::memory_order_seq_cst) != 0; }

Error Board::error() const {
  return {static_cast<HcclResult>(head_->abort.value.load(std::memory_order_acquire)), head_->abort_text};
}

bool Board::abort(HcclResult code, const std::string& text) noexcept {
  uint32_t nobody = 0;
  if (!head_->abort_owner.compare_exchange_strong(nobody, 1)) return false;
  const size_t size = std::min(text.size(), sizeof head_->abort_text - 1);
  memcpy(head_->abort_text, text.data(), size);
  head_->abort_text[size] = 0;
  head_->abort.value.store(static_cast<uint32_t>(code), std::memory_order_seq_cst);
  wake_all();
  return true;
}

void Board::wake_all() noexcept {
  for (uint32_t i = 0; i < kDepth; ++i) notify(turns_[i].arrived), notify(turns_[i].finished);
  for (uint32_t r = 0; r < ranks_; ++r)
    for (Signal* s : {&slots_[r].posted, &slots_[r].done, &slots_[r].bell, &slots_[r].busy, &slots_[r].turn})
      notify(*s);
}

void Board::leave(uint32_t rank, Left how) noexcept {
  Left before = slots_[rank].left.load(std::memory_order_seq_cst);
  while (before < how && !slots_[rank].left.compare_exchange_weak(before, how, std::memory_order_seq_cst)) {
  }
  wake_all();
}

// As if all operations before the first had been done.
void Board::begin() noexcept {
  for (uint64_t s = kFirstSequence - kDepth; s < kFirstSequence; ++s) {
    turn(s).arrived.value = complete(s, ranks_);
    turn(s).finished.value = static_cast<uint32_t>(s + 1);
  }
  for (uint32_t r = 0; r < ranks_; ++r)
    slots_[r].posted.value = slots_[r].done.value = static_cast<uint32_t>(kFirstSequence);
}

}  // namespace softnpu::hccl
