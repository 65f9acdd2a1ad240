// See communicator.h: membership, order, errors.
#include "softnpu/hccl/communicator.h"

#include <algorithm>

#include "softnpu/hccl/status.h"
#include "softnpu/runtime/enqueue.h"

namespace softnpu::hccl {
namespace {

// Every communicator of the process, for the control thread to find those that a lost process belonged to.
struct Directory {
  std::mutex mutex;
  std::set<Communicator*> all;
};
Directory& directory() {
  static Directory* const the = new Directory;
  return *the;
}

}  // namespace

uint64_t Turnstile::take() {
  std::lock_guard lock(mutex_);
  return next_++;
}

void Turnstile::enter(uint64_t ticket) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return serving_ == ticket; });
}

void Turnstile::leave() {
  std::lock_guard lock(mutex_);
  ++serving_;
  pass_skipped();
}

void Turnstile::skip(uint64_t ticket) {
  std::lock_guard lock(mutex_);
  skipped_.insert(ticket);
  pass_skipped();
}

void Turnstile::pass_skipped() {
  while (skipped_.erase(serving_)) ++serving_;
  moved_.notify_all();
}

Communicator::Communicator(const Key& key, uint32_t rank, std::vector<Member> members, Options options)
    : key_(key),
      rank_(rank),
      members_(std::move(members)),
      options_(std::move(options)),
      hosts_(members_, rank),
      peers_(members_.size()),
      board_key_(key),
      sent_(members_.size()),
      received_(members_.size()),
      known_(members_.size()) {}

Communicator::~Communicator() {
  Directory& d = directory();
  bool last;
  {
    std::lock_guard lock(d.mutex);
    d.all.erase(this);
    last = d.all.empty();
  }
  say_farewell();
  if (board_) {
    board_->slot(rank_).left.store(1, std::memory_order_seq_cst);
    board_->wake_all();
    Peers::get().withdraw_board(board_key_);
  }
  if (last) Peers::get().forget_memory();
}

void Communicator::subscribe() {
  static const bool once = [] {
    Peers::get().on_gone([](const Peer& peer, bool orderly) {
      for_each([&](Communicator& c) { c.process_gone(peer.id(), peer.pid(), orderly); });
    });
    return true;
  }();
  (void)once;
  std::lock_guard lock(directory().mutex);
  directory().all.insert(this);
}

void Communicator::for_each(const std::function<void(Communicator&)>& visit) {
  Directory& d = directory();
  std::lock_guard lock(d.mutex);
  for (Communicator* c : d.all) visit(*c);
}

void Communicator::link(const std::function<void()>& late) {
  for (uint32_t r = 0; r < size(); ++r) {
    if (hosts_.here(r) && !same_process(r)) peers_[r] = Peers::get().connect(members_[r].process, late);
  }
  board_ = shared_board(board_key_, late);
  subscribe();
  // One that died between its hello and our subscription was reported to nobody.
  for (uint32_t r = 0; r < size(); ++r)
    if (peers_[r] && peers_[r]->gone()) fail(HCCL_E_REMOTE, "rank %u (process %u) is gone", r, members_[r].process.pid);
}

// The lowest rank of the host makes it, the others get it from there.
std::shared_ptr<Board> Communicator::shared_board(const Key& key, const std::function<void()>& late) {
  const uint32_t maker = host_leader();
  if (rank_ == maker) {
    auto board = Board::create(size());
    Peers::get().publish_board(key, board);
    return board;
  }
  return same_process(maker) ? Peers::get().own_board(key, late) : peers_[maker]->board(key, size(), late);
}

void Communicator::connect_hosts(ControlLinkPtr link) {
  if (!hosts_.several()) return;
  wire_ = &Wire::get(members_[rank_].device_address);
  {
    std::lock_guard lock(directory().mutex);  // the control thread looks at it
    control_ = std::move(link);
  }
  heed_early_error();
}

void Communicator::resume() {
  const Deadline deadline = Clock::now() + settings().connect_timeout;
  auto late = [&] {
    if (Clock::now() > deadline)
      fail(HCCL_E_TIMEOUT, "HcclCommResume: rank %u did not resume within the time limit (HCCL_CONNECT_TIMEOUT)",
           host_leader());
  };
  for (uint32_t r = 0; r < size(); ++r)
    if (peers_[r] && peers_[r]->gone())
      fail(HCCL_E_REMOTE, "rank %u (process %u) is gone: the communicator cannot be resumed", r,
           members_[r].process.pid);
  const Key next = derived_key(key_, "resume " + std::to_string(++resumed_));
  const std::shared_ptr<Board> fresh = shared_board(next, late);
  Peers::get().withdraw_board(board_key_);
  {
    std::lock_guard lock(directory().mutex);  // the control thread looks at both
    board_ = fresh;
    board_key_ = next;
  }
  sequence_ = 0;
  std::lock_guard lock(numbers_mutex_);
  std::fill(sent_.begin(), sent_.end(), 0);
  std::fill(received_.begin(), received_.end(), 0);
  failed_.store(false, std::memory_order_release);
  heed_early_error();
}

uint32_t Communicator::count_sub(uint64_t id) {
  std::lock_guard lock(numbers_mutex_);
  return subs_[id]++;
}

void Communicator::process_gone(const Key& process, uint32_t pid, bool orderly) {
  uint32_t one = 0;
  const std::string ranks =
      ranks_where([&](uint32_t r) { return members_[r].process.id == process && (one = r, true); });
  if (ranks.empty()) return;
  if (!orderly)
    return abort(HCCL_E_REMOTE, "rank " + ranks + " is gone: process " + std::to_string(pid) +
                                    (hosts_.here(one) ? "" : std::string(" on ") + members_[one].address) +
                                    " ended without leaving the communicator");
  for (uint32_t r = 0; r < size(); ++r)
    if (members_[r].process.id == process) board_->slot(r).left.store(1, std::memory_order_seq_cst);
  board_->wake_all();
}

void Communicator::abort(HcclResult code, const std::string& text) noexcept {
  if (!set_error(code, text) || !control_) return;
  control_->say(Say::kAbort, {board_key_, rank_, 0, static_cast<uint32_t>(code), 0}, text.data(), text.size());
}

void Communicator::abort_here(HcclResult code, const std::string& text) noexcept { set_error(code, text); }

bool Communicator::set_error(HcclResult code, const std::string& text) noexcept {
  {
    std::lock_guard lock(error_mutex_);
    if (!failed_.load(std::memory_order_acquire)) own_error_ = {code, text};
    failed_.store(true, std::memory_order_release);
  }
  return board_->abort(code, "communicator " + options_.name + ": " + text);
}

Error Communicator::error() const {
  if (board_->aborted()) return board_->error();
  std::lock_guard lock(error_mutex_);
  return failed_.load(std::memory_order_acquire) ? own_error_ : Error{HCCL_SUCCESS, ""};
}

std::string Communicator::ranks_where(const std::function<bool(uint32_t)>& test) const {
  std::string text;
  for (uint32_t r = 0; r < size(); ++r)
    if (test(r)) text += (text.empty() ? "" : ", ") + std::to_string(r);
  return text;
}

Place Communicator::place(const void* buffer, uint64_t bytes, Staging* staging) const {
  if (!bytes) return {0, 0, 0};
  ArenaExport where;
  if (export_pointer(buffer, bytes, &where)) {
    Peers::get().offer_arena(where.id, where.fd, where.size);
    return {where.id, where.offset, reinterpret_cast<uint64_t>(buffer)};
  }
  staging->get(bytes);
  return {staging->arena(), 0, reinterpret_cast<uint64_t>(staging->data())};
}

std::byte* Communicator::resolve(uint32_t rank, const Place& place, const std::function<void()>& late) {
  if (!place.address) return nullptr;
  if (same_process(rank)) return reinterpret_cast<std::byte*>(place.address);
  {
    std::lock_guard lock(known_mutex_);
    for (const Known& k : known_[rank])
      if (k.arena == place.arena && k.base) return k.base + place.offset;
  }
  std::byte* base = peers_[rank]->arena(place.arena, late);
  std::lock_guard lock(known_mutex_);
  std::swap(known_[rank][0], known_[rank][1]);
  known_[rank][0] = {place.arena, base};
  return base + place.offset;
}

}  // namespace softnpu::hccl
