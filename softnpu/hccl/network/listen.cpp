// What a communicator says to and hears from its ranks on other hosts (control.h): errors, farewells, and who has come.
#include <cstring>

#include "softnpu/hccl/communicator.h"
#include "softnpu/hccl/network/control.h"
#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

// An error may be heard before this process has made its side of the communicator.
struct Early {
  std::mutex mutex;
  std::map<Key, Error> errors;
};
Early& early() {
  static Early* const the = new Early;
  return *the;
}

}  // namespace

void hear(const Heard& heard, ControlLink*) {
  if (heard.what == Say::kAbort) {
    const std::string text(reinterpret_cast<const char*>(heard.more.data()), heard.more.size());
    std::lock_guard lock(early().mutex);
    early().errors[heard.saying.key] = {static_cast<HcclResult>(heard.saying.code), text};
  }
  Communicator::for_each([&](Communicator& c) { c.heard(heard); });
}

void root_lost(const Key& process, Farewell how) {
  Communicator::for_each([&](Communicator& c) { c.root_lost(process, how); });
}

void say_farewells() {
  Communicator::for_each([](Communicator& c) { c.say_farewell(Left::kEnded); });
  Communicator::for_each([](Communicator& c) {
    if (c.control()) c.control()->bye();
  });
}

void Communicator::heed_early_error() {
  Error before{HCCL_SUCCESS, ""};
  const EpochPtr e = epoch();
  {
    std::lock_guard lock(early().mutex);
    const auto found = early().errors.find(e->key);
    if (found != early().errors.end()) before = found->second;
  }
  if (before.code != HCCL_SUCCESS) abort_here(before.code, before.text);
}

void Communicator::say_farewell(Left how) noexcept {
  if (control_) control_->say(Say::kLeft, {key_, rank_, 0, 0, static_cast<uint32_t>(how)});
}

// The root's process is known by its place at the other end; its ranks, when it has any, are gone with it.
void Communicator::root_lost(const Key& process, Farewell how) {
  if (!control_ || control_->root() != process) return;
  for (const Member& m : members_)
    if (m.process.id == process) return process_gone(process, m.process.pid, how);
  if (how != Farewell::kSaid)
    abort_here(HCCL_E_REMOTE, "the process that made the root info is gone, or its host was cut off");
}

void Communicator::heard(const Heard& heard) {
  const Saying& s = heard.saying;
  if (heard.what == Say::kGone) return process_gone(s.key, s.code, static_cast<Farewell>(s.how));
  const EpochPtr e = epoch();
  if (s.key != (heard.what == Say::kLeft ? key_ : e->key) || !control_ || s.rank >= size()) return;
  switch (heard.what) {
    case Say::kAbort:
      abort_here(static_cast<HcclResult>(s.code),
                 std::string(reinterpret_cast<const char*>(heard.more.data()), heard.more.size()));
      break;
    case Say::kLeft:
      e->board->leave(s.rank, static_cast<Left>(s.how));
      break;
    case Say::kAsk: {
      std::vector<uint32_t> came;
      for (uint32_t r : hosts_.here())
        if (reached(e->board->slot(r).posted.value.load(std::memory_order_acquire), s.sequence + 1)) came.push_back(r);
      control_->say(Say::kPresent, {e->key, rank_, s.sequence, s.rank, 0}, came.data(), came.size() * sizeof(uint32_t));
      break;
    }
    case Say::kPresent: {
      if (s.code != rank_) break;
      std::unique_lock lock(answers_mutex_);
      Presence& answers = answers_[s.sequence];
      answers.spoke.insert(s.rank);
      for (size_t at = 0; at + sizeof(uint32_t) <= heard.more.size(); at += sizeof(uint32_t)) {
        uint32_t r;
        memcpy(&r, heard.more.data() + at, sizeof r);
        answers.came.insert(r);
      }
      lock.unlock();
      ring(e->board->slot(rank_).bell);
      break;
    }
    default:
      break;
  }
}

// Half a second is enough for those who are there: it is their control thread that answers, whatever the rank does.
Communicator::Presence Communicator::ask_who_came(const Epoch& epoch, uint64_t s) {
  const auto word = static_cast<uint32_t>(s);
  control_->say(Say::kAsk, {epoch.key, rank_, word, 0, 0});
  UntilAborted patience(epoch);
  auto all_spoke = [&] {
    std::lock_guard lock(answers_mutex_);
    for (uint32_t r = 0; r < size(); ++r)
      if (!hosts_.here(r) && !answers_[word].spoke.count(r)) return false;
    return true;
  };
  wait(epoch.board->slot(rank_).bell, all_spoke, patience, Clock::now() + std::chrono::milliseconds(500));
  std::lock_guard lock(answers_mutex_);
  return answers_[word];
}

}  // namespace softnpu::hccl
