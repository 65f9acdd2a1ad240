// See epoch.h.
#include "softnpu/hccl/epoch.h"

namespace softnpu::hccl {

uint64_t Turnstile::take(const char* name) {
  std::lock_guard lock(mutex_);
  taken_.push_back({name});
  return serving() + taken_.size() - 1;
}

void Turnstile::enter(uint64_t ticket, Patience& patience) {
  wait(moved_, [&] { return serving() == ticket; }, patience);
}

void Turnstile::leave(uint64_t ticket) noexcept {
  std::lock_guard lock(mutex_);
  uint64_t next = serving();
  taken_[ticket - next].left = true;
  for (; !taken_.empty() && taken_.front().left; ++next) taken_.pop_front();
  serving_.store(next, std::memory_order_seq_cst);
  set(moved_, static_cast<uint32_t>(next));
}

std::string Turnstile::serving_name() const {
  std::lock_guard lock(mutex_);
  return taken_.empty() ? "nothing" : taken_.front().name;
}

std::vector<uint32_t> Epoch::take_numbers(const std::vector<Transfer>& transfers) {
  std::lock_guard lock(numbers_mutex_);
  std::vector<uint32_t> numbers;
  for (const Transfer& t : transfers) numbers.push_back((t.send ? sent_ : received_)[t.peer]++);
  return numbers;
}

bool Epoch::abort(HcclResult code, const std::string& text, const std::string& name) noexcept {
  {
    std::lock_guard lock(error_mutex_);
    if (!failed_.load(std::memory_order_acquire)) own_error_ = {code, text};
    failed_.store(true, std::memory_order_release);
  }
  return board->abort(code, "communicator " + name + ": " + text);
}

Error Epoch::error() const {
  if (board->aborted()) return board->error();
  std::lock_guard lock(error_mutex_);
  return failed_.load(std::memory_order_acquire) ? own_error_ : Error{HCCL_SUCCESS, ""};
}

}  // namespace softnpu::hccl
