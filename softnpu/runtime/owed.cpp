#include "softnpu/runtime/owed.h"

#include <algorithm>

namespace softnpu {

uint16_t thread_number() noexcept {
  static constinit std::atomic<uint16_t> last{0};
  static constinit thread_local uint16_t mine = 0;
  while (__builtin_expect(mine == 0, 0)) mine = static_cast<uint16_t>(last.fetch_add(1, std::memory_order_relaxed) + 1);
  return mine;
}

void Owed::told(uint16_t thread) noexcept {
  std::erase_if(debts_, [&](const Debt& d) { return d.thread == thread; });
  any_.store(!debts_.empty(), std::memory_order_release);
  try {
    told_.push_back(thread);
  } catch (...) {  // it may be told twice
  }
}

void Owed::owe(uint16_t thread, uint64_t position, int code, const std::string& text) noexcept {
  if (std::find(told_.begin(), told_.end(), thread) != told_.end()) return;
  if (std::any_of(debts_.begin(), debts_.end(), [&](const Debt& d) { return d.thread == thread; })) return;
  try {
    debts_.push_back({thread, position, {code, text}});
  } catch (...) {  // near the end of memory: the log has it
    return;
  }
  if (debts_.size() > kMost) debts_.erase(debts_.begin());
  any_.store(true, std::memory_order_release);
}

std::optional<Error> Owed::take(uint16_t thread, uint64_t until) noexcept {
  const auto found = std::find_if(debts_.begin(), debts_.end(),
                                  [&](const Debt& d) { return d.thread == thread && d.position <= until; });
  if (found == debts_.end()) return std::nullopt;
  Error error = std::move(found->error);
  debts_.erase(found);
  any_.store(!debts_.empty(), std::memory_order_release);
  return error;
}

void Owed::clear() noexcept {
  debts_.clear();
  told_.clear();
  any_.store(false, std::memory_order_release);
}

}  // namespace softnpu
