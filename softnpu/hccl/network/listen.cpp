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

void root_lost(const Key& process, bool orderly) {
  Communicator::for_each([&](Communicator& c) { c.root_lost(process, orderly); });
}

void say_farewells() {
  Communicator::for_each([](Communicator& c) { c.say_farewell(); });
  Communicator::for_each([](Communicator& c) {
    if (c.control()) c.control()->bye();
  });
}

void Communicator::heed_early_error() {
  Error before{HCCL_SUCCESS, ""};
  {
    std::lock_guard lock(early().mutex);
    const auto found = early().errors.find(board_key_);
    if (found != early().errors.end()) before = found->second;
  }
  if (before.code != HCCL_SUCCESS) abort_here(before.code, before.text);
}

void Communicator::say_farewell() noexcept {
  if (control_) control_->say(Say::kLeft, {key_, rank_, 0, 0, 0});
}

// The root's process is known by its place at the other end; its ranks, when it has any, are gone with it.
void Communicator::root_lost(const Key& process, bool orderly) {
  if (!control_ || control_->root() != process) return;
  if (!ranks_where([&](uint32_t r) { return members_[r].process.id == process; }).empty()) {
    for (const Member& m : members_)
      if (m.process.id == process) return process_gone(process, m.process.pid, orderly);
  }
  if (!orderly) abort_here(HCCL_E_REMOTE, "the process that made the root info is gone, or its host was cut off");
}

void Communicator::heard(const Heard& heard) {
  const Saying& s = heard.saying;
  if (heard.what == Say::kGone) return process_gone(s.key, s.code, false);
  if (s.key != (heard.what == Say::kLeft ? key_ : board_key_) || !control_ || s.rank >= size()) return;
  switch (heard.what) {
    case Say::kAbort:
      abort_here(static_cast<HcclResult>(s.code),
                 std::string(reinterpret_cast<const char*>(heard.more.data()), heard.more.size()));
      break;
    case Say::kLeft:
      board_->slot(s.rank).left.store(1, std::memory_order_seq_cst);
      board_->wake_all();
      break;
    case Say::kAsk: {
      std::vector<uint32_t> came;
      for (uint32_t r : hosts_.here())
        if (arrived(r, s.sequence)) came.push_back(r);
      control_->say(Say::kPresent, {board_key_, rank_, s.sequence, s.rank, 0}, came.data(),
                    came.size() * sizeof(uint32_t));
      break;
    }
    case Say::kPresent: {
      if (s.code != rank_) break;
      std::lock_guard lock(answers_mutex_);
      auto& answers = answers_[s.sequence];
      for (size_t at = 0; at + sizeof(uint32_t) <= heard.more.size(); at += sizeof(uint32_t)) {
        uint32_t r;
        memcpy(&r, heard.more.data() + at, sizeof r);
        answers.insert(r);
      }
      answers_changed_.notify_all();
      break;
    }
    default:
      break;
  }
}

// Half a second is enough for those who are there: it is their control thread that answers, whatever the rank does.
std::set<uint32_t> Communicator::ask_who_came(uint32_t s) {
  control_->say(Say::kAsk, {board_key_, rank_, s, 0, 0});
  std::unique_lock lock(answers_mutex_);
  answers_changed_.wait_for(lock, std::chrono::milliseconds(500), [&] {
    for (uint32_t r = 0; r < size(); ++r)
      if (!hosts_.here(r) && !answers_[s].count(r)) return false;
    return true;
  });
  return answers_[s];
}

}  // namespace softnpu::hccl
