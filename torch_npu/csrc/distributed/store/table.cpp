#include "csrc/distributed/store/table.h"

#include <algorithm>
#include <charconv>

#include "csrc/distributed/store/protocol.h"

namespace npu::distributed::store {
namespace {

// A key is anybody's: what is counted in it may have been set to something else.
std::optional<int64_t> number(std::string_view text) noexcept {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

int64_t sum(std::string_view key, const std::optional<std::string>& now, int64_t more) {
  const auto value = now ? number(*now) : 0;
  if (!value) throw ProtocolError("the value of " + std::string(key) + " is not a number");
  int64_t out = 0;
  if (__builtin_add_overflow(*value, more, &out))
    throw ProtocolError("the value of " + std::string(key) + " would be too large a number");
  return out;
}

constexpr int64_t kEntry = 128;  // what an entry costs beside its texts

int64_t cost_now(std::string_view key, const std::optional<std::string>& value) {
  return value ? kEntry + static_cast<int64_t>(key.size() + value->size()) : 0;
}

int64_t cost(std::string_view key, std::string_view value) {
  return kEntry + static_cast<int64_t>(key.size() + value.size());
}

}  // namespace

void Table::hold(Shard& shard, std::string_view key, int64_t more) {
  if (bytes_.take(more)) return;
  if (auto found = shard.entries.find(key); found != shard.entries.end() && found->second.idle())
    shard.entries.erase(found);
  throw ProtocolError("the store is full");
}

Table::Entry& Table::Shard::at(std::string_view key) {
  auto found = entries.find(key);
  return found != entries.end() ? found->second : entries.emplace(key, Entry()).first->second;
}

// Those who only look are all served by one value; a barrier's and a queue's own waits stay.
std::vector<WaitPtr> Table::lookers(Entry& entry) {
  std::vector<WaitPtr> out;
  auto stays = [](const WaitPtr& wait) { return wait->takes || wait->arrives; };
  if (std::none_of(entry.waits.begin(), entry.waits.end(), stays)) {
    out.swap(entry.waits);
    return out;
  }
  auto from = std::stable_partition(entry.waits.begin(), entry.waits.end(), stays);
  out.assign(from, entry.waits.end());
  entry.waits.erase(from, entry.waits.end());
  return out;
}

void Table::tell(const std::vector<WaitPtr>& waits) {
  for (const auto& wait : waits) {
    if (wait->missing.fetch_sub(1) == 1) wait->done({});
  }
}

void Table::set(std::string_view key, std::string_view value) {
  std::vector<WaitPtr> waits;
  {
    Shard& s = shard(key);
    std::lock_guard lock(s.lock);
    Entry& entry = s.at(key);
    hold(s, key, cost(key, value) - cost_now(key, entry.value));
    entry.value.emplace(value);
    waits = lookers(entry);
  }
  tell(waits);
}

std::string Table::get(std::string_view key) {
  Shard& s = shard(key);
  std::lock_guard lock(s.lock);
  auto found = s.entries.find(key);
  return found != s.entries.end() && found->second.value ? *found->second.value : std::string();
}

std::string Table::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  std::vector<WaitPtr> waits;
  std::string now;
  {
    Shard& s = shard(key);
    std::lock_guard lock(s.lock);
    auto found = s.entries.find(key);
    const bool there = found != s.entries.end() && found->second.value;
    if (there ? *found->second.value != expected : !expected.empty()) {
      return there ? *found->second.value : std::string(expected);  // PyTorch's answer where there is no value
    }
    Entry& entry = there ? found->second : s.at(key);
    hold(s, key, cost(key, desired) - cost_now(key, entry.value));
    entry.value.emplace(desired);
    now = *entry.value;
    waits = lookers(entry);
  }
  tell(waits);
  return now;
}

int64_t Table::add(std::string_view key, int64_t value) {
  std::vector<WaitPtr> waits;
  {
    Shard& s = shard(key);
    std::lock_guard lock(s.lock);
    Entry& entry = s.at(key);
    value = sum(key, entry.value, value);
    std::string text = std::to_string(value);
    hold(s, key, cost(key, text) - cost_now(key, entry.value));
    entry.value = std::move(text);
    waits = lookers(entry);
  }
  tell(waits);
  return value;
}

void Table::append(std::string_view key, std::string_view value) {
  std::vector<WaitPtr> waits;
  {
    Shard& s = shard(key);
    std::lock_guard lock(s.lock);
    Entry& entry = s.at(key);
    const size_t size = (entry.value ? entry.value->size() : 0) + value.size();
    if (size > kLargestRequest) throw ProtocolError("a value of " + std::to_string(size) + " bytes");
    hold(s, key, static_cast<int64_t>(value.size()) + (entry.value ? 0 : cost(key, std::string_view())));
    if (!entry.value) entry.value.emplace();
    entry.value->append(value);
    waits = lookers(entry);
  }
  tell(waits);
}

int64_t Table::erase(std::string_view key) {
  Shard& s = shard(key);
  std::lock_guard lock(s.lock);
  auto found = s.entries.find(key);
  if (found == s.entries.end() || !found->second.value) return 0;
  hold(s, key, -cost_now(key, found->second.value));
  found->second.value.reset();
  if (found->second.idle()) s.entries.erase(found);
  return 1;
}

bool Table::has(std::string_view key) {
  Shard& s = shard(key);
  std::lock_guard lock(s.lock);
  auto found = s.entries.find(key);
  return found != s.entries.end() && (found->second.value || !found->second.queue.empty());
}

int64_t Table::size() {
  int64_t sum = 0;
  for (Shard& s : shards_) {
    std::lock_guard lock(s.lock);
    sum += std::count_if(s.entries.begin(), s.entries.end(), [](auto& e) { return e.second.value.has_value(); });
  }
  return sum;
}

std::vector<std::string> Table::keys() {
  std::vector<std::string> out;
  for (Shard& s : shards_) {
    std::lock_guard lock(s.lock);
    for (auto& [key, entry] : s.entries) {
      if (entry.value) out.push_back(key);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

void Table::push(std::string_view key, std::string_view value) {
  for (bool taken = false; !taken;) {
    WaitPtr wait;
    {
      Shard& s = shard(key);
      std::lock_guard lock(s.lock);
      Entry& entry = s.at(key);
      // One value serves one: whoever takes it, else one of TCPStore's clients, which wait first and then take.
      auto first = std::find_if(entry.waits.begin(), entry.waits.end(), [](auto& w) { return w->takes; });
      if (first == entry.waits.end()) {
        hold(s, key, cost(key, value));
        entry.queue.emplace_back(value);
        first = std::find_if(entry.waits.begin(), entry.waits.end(), [](auto& w) { return !w->arrives; });
      }
      if (first == entry.waits.end()) return;
      wait = std::move(*first);
      entry.waits.erase(first);
      if (entry.idle()) s.entries.erase(s.entries.find(key));
    }
    const bool last = wait->missing.fetch_sub(1) == 1;
    taken = (last && wait->done(wait->takes ? value : std::string_view())) || !wait->takes;
  }
}

std::pair<int64_t, std::string> Table::pop(std::string_view key) {
  Shard& s = shard(key);
  std::lock_guard lock(s.lock);
  auto found = s.entries.find(key);
  if (found == s.entries.end() || found->second.queue.empty()) return {0, {}};
  auto& queue = found->second.queue;
  std::pair<int64_t, std::string> out(queue.size(), std::move(queue.front()));
  queue.pop_front();
  hold(s, key, -cost(key, out.second));
  if (found->second.idle()) s.entries.erase(found);
  return out;
}

int64_t Table::length(std::string_view key) {
  Shard& s = shard(key);
  std::lock_guard lock(s.lock);
  auto found = s.entries.find(key);
  return found == s.entries.end() ? 0 : static_cast<int64_t>(found->second.queue.size());
}

// The value of a barrier's key is how many have come. Every `world`-th lets all who wait go on, so that a key can serve
// again.
bool Table::arrive(const WaitPtr& wait) {
  std::vector<WaitPtr> waits;
  bool last = false;
  {
    const std::string& key = wait->keys[0];
    Shard& s = shard(key);
    std::lock_guard lock(s.lock);
    Entry& entry = s.at(key);
    const int64_t come = sum(key, entry.value, 1);
    std::string text = std::to_string(come);
    hold(s, key, cost(key, text) - cost_now(key, entry.value));
    entry.value = std::move(text);
    waits = lookers(entry);
    last = wait->world > 0 && come % wait->world == 0;
    if (last) {
      auto from = std::stable_partition(entry.waits.begin(), entry.waits.end(), [](auto& w) { return !w->arrives; });
      waits.insert(waits.end(), from, entry.waits.end());
      entry.waits.erase(from, entry.waits.end());
    } else {
      wait->missing = 1;
      entry.waits.push_back(wait);
    }
  }
  tell(waits);
  return last;
}

bool Table::take(const WaitPtr& wait, std::string& taken) {
  Shard& s = shard(wait->keys[0]);
  std::lock_guard lock(s.lock);
  Entry& entry = s.at(wait->keys[0]);
  if (entry.queue.empty()) {
    wait->missing = 1;
    entry.waits.push_back(wait);
    return false;
  }
  taken = std::move(entry.queue.front());
  entry.queue.pop_front();
  hold(s, wait->keys[0], -cost(wait->keys[0], taken));
  if (entry.idle()) s.entries.erase(s.entries.find(wait->keys[0]));
  return true;
}

bool Table::wait(const WaitPtr& wait, std::string& taken) {
  int64_t bytes = 0;
  for (const auto& key : wait->keys) bytes += 2 * cost(key, {});  // the wait's own, and an entry's
  wait->share.resize(bytes);
  if (wait->arrives) return arrive(wait);
  if (wait->takes) return take(wait, taken);
  // One more than the keys, so that it is not done before all have been looked at.
  wait->missing = static_cast<int64_t>(wait->keys.size()) + 1;
  for (const auto& key : wait->keys) {
    Shard& s = shard(key);
    std::lock_guard lock(s.lock);
    Entry& entry = s.at(key);
    if (entry.value || !entry.queue.empty()) {
      wait->missing.fetch_sub(1);
    } else {
      entry.waits.push_back(wait);
    }
  }
  return wait->missing.fetch_sub(1) == 1;
}

void Table::cancel(const WaitPtr& wait) noexcept {
  for (const auto& key : wait->keys) {
    Shard& s = shard(key);
    std::lock_guard lock(s.lock);
    auto found = s.entries.find(key);
    if (found == s.entries.end()) continue;
    Entry& entry = found->second;
    const bool waited = std::erase(entry.waits, wait) > 0;
    // Who goes away has not come, unless the value is not the barrier's any more. One less is no longer text: nothing is allocated.
    std::optional<int64_t> come;
    if (waited && wait->arrives && entry.value) come = number(*entry.value);
    if (come && *come > 0) {
      char text[24];
      const auto end = std::to_chars(text, text + sizeof(text), *come - 1).ptr;
      const int64_t before = cost_now(key, entry.value);
      entry.value->assign(text, end);
      bytes_.take(cost_now(key, entry.value) - before);
    }
    if (entry.idle()) s.entries.erase(found);
  }
}

}  // namespace npu::distributed::store
