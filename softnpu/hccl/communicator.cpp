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

Communicator::Communicator(const Key& key, uint32_t rank, std::vector<Member> members, Options options)
    : key_(key),
      rank_(rank),
      members_(std::move(members)),
      options_(std::move(options)),
      hosts_(members_, rank),
      peers_(members_.size()),
      limit_ms_(options_.exec_timeout.count()),
      known_(members_.size()) {}

Communicator::~Communicator() {
  if (epoch_) {
    if (!closed_) close();  // its making failed
    Peers::get().withdraw_board(epoch_->key);
  }
  Directory& d = directory();
  std::lock_guard lock(d.mutex);
  d.all.erase(this);
  // Under the lock: a communicator that is being made enters the directory before it asks for any memory.
  if (d.all.empty()) Peers::get().forget_memory();
}

void Communicator::close() {
  closed_.store(true, std::memory_order_seq_cst);
  const EpochPtr e = epoch();
  if (const uint32_t calls = unfinished_.load(std::memory_order_seq_cst); calls && !e->aborted())
    abort(*e, HCCL_E_REMOTE,
          "rank " + name_of({rank_}) + " (" + process_of(rank_) + ") destroyed the communicator before " +
              std::to_string(calls) + (calls == 1 ? " of its calls was done" : " of its calls were done"));
  say_farewell(Left::kDestroyed);
  e->board->leave(rank_, Left::kDestroyed);
}

void Communicator::begin() {
  unfinished_.fetch_add(1, std::memory_order_seq_cst);
  if (!closed_.load(std::memory_order_seq_cst)) return;
  end();
  require_open();
}

void Communicator::require_open() const {
  if (closed_) fail(HCCL_E_PARA, "the communicator %s was destroyed (HcclCommDestroy)", options_.name.c_str());
}

EpochPtr Communicator::epoch() const {
  std::lock_guard lock(epoch_mutex_);
  return epoch_;
}

void Communicator::subscribe() {
  static const bool once = [] {
    Peers::get().on_gone([](const Peer& peer, bool orderly) {
      const Farewell how = orderly ? Farewell::kSaid : Farewell::kMissing;
      for_each([&](Communicator& c) { c.process_gone(peer.id(), peer.pid(), how); });
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

void Communicator::link(Patience& patience) {
  for (uint32_t r = 0; r < size(); ++r) {
    if (hosts_.here(r) && !same_process(r)) peers_[r] = Peers::get().connect(members_[r].process, patience);
  }
  auto first = std::make_shared<Epoch>(shared_board(key_, patience), key_, rank_);
  {
    std::lock_guard lock(epoch_mutex_);
    epoch_ = std::move(first);
  }
  subscribe();
  // One that died between its hello and our subscription was reported to nobody.
  for (uint32_t r = 0; r < size(); ++r)
    if (peers_[r] && peers_[r]->gone())
      fail(HCCL_E_REMOTE, "rank %s (process %u) is gone", name_of({r}).c_str(), members_[r].process.pid);
}

// The lowest rank of the host makes it, the others get it from there.
std::shared_ptr<Board> Communicator::shared_board(const Key& key, Patience& patience) {
  const uint32_t maker = host_leader();
  if (rank_ == maker) {
    auto board = Board::create(size());
    Peers::get().publish_board(key, board);
    return board;
  }
  return same_process(maker) ? Peers::get().own_board(key, patience)
                             : peers_[maker]->board(key, size(), [&] { return name_of({maker}); }, patience);
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
  Until patience(Clock::now() + settings().connect_timeout, [&] {
    fail(HCCL_E_TIMEOUT, "HcclCommResume: rank %s did not resume within the time limit (HCCL_CONNECT_TIMEOUT)",
         name_of({host_leader()}).c_str());
  });
  for (uint32_t r = 0; r < size(); ++r)
    if (peers_[r] && peers_[r]->gone())
      fail(HCCL_E_REMOTE, "rank %s (process %u) is gone: the communicator cannot be resumed", name_of({r}).c_str(),
           members_[r].process.pid);
  // From here until the next epoch is there calls are refused; nobody is held up while this one waits for the others.
  EpochPtr before;
  Key key;
  {
    std::lock_guard order(submit_mutex_);
    before = epoch();
    before->abort(HCCL_E_SUSPENDING, "rank " + name_of({rank_}) + " called HcclCommResume before this was done",
                  options_.name);
    key = derived_key(key_, "resume " + std::to_string(++resumed_));
  }
  auto next = std::make_shared<Epoch>(shared_board(key, patience), key, rank_);
  Peers::get().withdraw_board(before->key);
  {
    std::lock_guard order(submit_mutex_);  // the order of tickets is that of the streams, in one epoch
    std::lock_guard lock(epoch_mutex_);
    epoch_ = std::move(next);
  }
  heed_early_error();
  heed_those_gone();
}

// Called after the epoch is there to be found: whoever dies later is reported to it, whoever died before is marked by then.
void Communicator::heed_those_gone() {
  std::set<Key> seen;
  for (uint32_t r = 0; r < size(); ++r)
    if (peers_[r] && peers_[r]->gone() && seen.insert(members_[r].process.id).second)
      process_gone(members_[r].process.id, members_[r].process.pid,
                   peers_[r]->said_goodbye() ? Farewell::kSaid : Farewell::kMissing);
}

uint32_t Communicator::count_sub(uint64_t id) {
  std::lock_guard lock(subs_mutex_);
  return subs_[id]++;
}

void Communicator::process_gone(const Key& process, uint32_t pid, Farewell how) {
  uint32_t one = 0;
  const std::string ranks =
      ranks_where([&](uint32_t r) { return members_[r].process.id == process && (one = r, true); });
  if (ranks.empty()) return;
  const EpochPtr e = epoch();
  // Who destroyed its communicator first owes the others nothing: its end, even without a word (_exit), is no failure.
  bool had_left = true;
  for (uint32_t r = 0; r < size(); ++r)
    if (members_[r].process.id == process) had_left = had_left && e->board->left(r) != Left::kNo;
  if (had_left) how = Farewell::kSaid;
  // First this, then the error: whoever sees the error knows who writes into no buffer any more.
  for (uint32_t r = 0; r < size(); ++r)
    if (members_[r].process.id == process) e->board->leave(r, how == Farewell::kSaid ? Left::kEnded : Left::kDied);
  if (how == Farewell::kSaid) return;
  const std::string text = "rank " + ranks + " is gone: process " + std::to_string(pid) +
                           (hosts_.here(one) ? "" : std::string(" on ") + members_[one].address);
  abort(*e, HCCL_E_REMOTE,
        how == Farewell::kSilence ? text + " was not heard for " + std::to_string(options_.host_timeout.count()) +
                                        " s (ANYCEND_HOST_TIMEOUT): its host was cut off, or it hangs"
                                  : text + " ended without leaving the communicator; see that rank's log");
}

std::string Communicator::process_of(uint32_t rank) const {
  return "process " + std::to_string(members_[rank].process.pid) + " on " + members_[rank].address;
}

std::string Communicator::root_name() const {
  std::vector<uint32_t> ranks;
  for (uint32_t r = 0; r < size(); ++r)
    if (members_[r].process.id == control_->root()) ranks.push_back(r);
  if (ranks.empty()) return "the process that made the root info";
  return "rank " + name_of(ranks) + " (" + process_of(ranks.front()) + ")";
}

void Communicator::abort(Epoch& epoch, HcclResult code, const std::string& text) noexcept {
  if (!epoch.abort(code, text, options_.name) || !control_) return;
  control_->say(Say::kAbort, {epoch.key, rank_, 0, static_cast<uint32_t>(code), 0}, text.data(), text.size());
}

void Communicator::abort_here(HcclResult code, const std::string& text) noexcept {
  epoch()->abort(code, text, options_.name);
}

std::string Communicator::settle(Epoch& epoch) noexcept {
  constexpr auto kMoment = std::chrono::seconds(1);
  const Board& board = *epoch.board;
  const Deadline enough = Clock::now() + kMoment;
  Certain patience;  // bounded by the moment
  return ranks_where([&](uint32_t r) {
    Signal& busy = board.slot(r).busy;
    return r != rank_ && hosts_.here(r) &&
           !wait(
               busy,
               [&] { return busy.value.load(std::memory_order_seq_cst) % 2 == 0 || board.left(r) >= Left::kEnded; },
               patience, enough);
  });
}

std::string Communicator::ranks_where(const std::function<bool(uint32_t)>& test) const {
  std::vector<uint32_t> found;
  for (uint32_t r = 0; r < size(); ++r)
    if (test(r)) found.push_back(r);
  return name_of(found);
}

std::vector<uint32_t> Communicator::first_of(const std::vector<uint32_t>& ranks) const {
  std::vector<uint32_t> found;
  for (const uint32_t r : ranks) found.push_back(options_.first.empty() ? r : options_.first.at(r));
  return found;
}

std::string Communicator::name_of(const std::vector<uint32_t>& ranks) const {
  auto listed = [](const std::vector<uint32_t>& all) {
    std::string text;
    for (const uint32_t r : all) text += (text.empty() ? "" : ", ") + std::to_string(r);
    return text;
  };
  const std::string here = listed(ranks), global = listed(first_of(ranks));
  return here == global ? here : here + " (global rank " + global + ")";
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

std::byte* Communicator::resolve(uint32_t rank, const Place& place, Patience& patience) {
  if (!place.address) return nullptr;
  if (same_process(rank)) return reinterpret_cast<std::byte*>(place.address);
  {
    std::lock_guard lock(known_mutex_);
    for (const Known& k : known_[rank])
      if (k.arena == place.arena && k.base) return k.base + place.offset;
  }
  std::byte* base = peers_[rank]->arena(place.arena, [&] { return name_of({rank}); }, patience);
  std::lock_guard lock(known_mutex_);
  std::swap(known_[rank][0], known_[rank][1]);
  known_[rank][0] = {place.arena, base};
  return base + place.offset;
}

}  // namespace softnpu::hccl
