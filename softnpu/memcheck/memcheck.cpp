#include "softnpu/memcheck/memcheck.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "softnpu/memcheck/heaps.h"
#include "softnpu/memcheck/written.h"
#include "softnpu/race/place.h"
#include "softnpu/race/words.h"

namespace softnpu::memcheck {
namespace {

using race::Access;
using race::hex;
using race::line;

constexpr size_t kMostReports = 100;

struct Block {
  uintptr_t end, top;     // of what was asked for, and of what belongs to it
  const void* stream;     // in whose order it is reused
  const char* allocated;  // the lines of the program; null: not known
  const char* freed = nullptr;
  bool live = true;
  Written written;
};

// From device memory to device memory, where it writes some.
bool is_copy(std::string_view name) { return name == "aclnnInplaceCopy" || name.starts_with("aclrtMemcpy"); }

// Products that leave their first operand out where beta is 0.
bool ignores(std::string_view name) {
  for (const char* product : {"aclnnAddmm", "aclnnAddmv", "aclnnAddbmm", "aclnnAddr", "aclnnBaddbmm"})
    if (name == product) return true;
  return false;
}
// The same view is written: much of what writes in place reads nothing (scatter_, uniform_).
bool in_place(const Access& a, const race::Accesses& accesses) {
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& b) {
    return b.write && a.begin == b.begin && a.end == b.end &&
           (a.pattern == b.pattern || (a.pattern && b.pattern && *a.pattern == *b.pattern));
  });
}

struct Checker {
  std::mutex mutex;  // a leaf; guards all below
  bool fails = false;
  std::map<uintptr_t, Block> blocks;  // by beginning; they do not overlap
  Heaps heaps;                        // that the program registered
  std::unordered_set<std::string> texts;
  std::set<std::tuple<int, const char*, const char*>> said;  // kind, name and place
  std::deque<std::string> reports;

  using Place = std::map<uintptr_t, Block>::iterator;
  Place at(uintptr_t address) {
    auto it = blocks.upper_bound(address);
    if (it == blocks.begin()) return blocks.end();
    --it;
    return address < it->second.top ? it : blocks.end();
  }

  void forget(uintptr_t begin, uintptr_t end) {
    heaps.forget(begin, end);
    auto it = blocks.upper_bound(begin);
    if (it != blocks.begin() && std::prev(it)->second.top > begin) --it;
    while (it != blocks.end() && it->first < end) it = blocks.erase(it);
  }

  // Null where it was said before.
  const char* say(int kind, const char* name, const char* place, const std::string& what, const std::string& memory) {
    const char* kept = texts.emplace(name).first->c_str();
    if (reports.size() >= kMostReports || !said.emplace(kind, kept, place).second) return nullptr;
    reports.push_back(std::string(name) + " " + what + "\n  line    " + line(place) + "\n  memory  " + memory);
    const std::string written = "anycend: memory: " + reports.back() + "\n";  // one write: ranks share the file
    (void)!write(STDERR_FILENO, written.data(), written.size());
    return reports.back().c_str();
  }

  const char* say(int kind, const char* name, const char* place, const std::string& what, const Place& block) {
    std::string memory = "a block of " + of_bytes(block->second.end - block->first) + " at " + hex(block->first) +
                         ", allocated at " + line(block->second.allocated);
    if (!block->second.live) memory += ", freed at " + line(block->second.freed);
    return say(kind, name, place, what, memory);
  }

  static std::string does(const Access& a) {
    return std::string(a.write ? "writes " : "reads ") + of_bytes(a.end - a.begin) + " at " + hex(a.begin);
  }

  // `unread`: what nobody has written may stay so, as long as nobody computes with it.
  const char* judge(const char* name, const Access& a, bool unread) {
    if (Heaps::Wrong wrong; !heaps.empty() && heaps.judge(a, wrong))
      return say(wrong.freed ? 0 : 1, name, race::place(), does(a) + wrong.what, wrong.memory);
    const Place block = at(a.begin);
    if (block == blocks.end()) return nullptr;
    Block& b = block->second;
    const char* place = race::place();
    if (!b.live) return say(0, name, place, does(a) + " of memory that was freed", block);
    if (a.end > b.end)
      return say(1, name, place, does(a) + ", " + of_bytes(a.end - b.end) + " behind the end of the block", block);
    if (a.write || unread) return nullptr;
    uint64_t missing = 0, all = 0;
    const uintptr_t begin = block->first;
    race::each_run(a, [&](uintptr_t from, uintptr_t to) {
      missing += b.written.missing(from - begin, to - begin);
      all += to - from;
    });
    if (missing == 0 || (missing < all && a.chosen)) return nullptr;
    return say(2, name, place, does(a) + ", of which nobody has written " + std::to_string(missing), block);
  }

  // Nothing at all of it was written. False where that is not known.
  bool blank(const Access& a) {
    const Place block = at(a.begin);
    if (block == blocks.end() || a.end > block->second.end) return false;
    const uintptr_t begin = block->first;
    bool none = true;
    const bool known = race::each_run(a, [&](uintptr_t from, uintptr_t to) {
      none = none && block->second.written.missing(from - begin, to - begin) == to - from;
    });
    return known && none;
  }

  void mark(const Access& a) {
    const Place block = at(a.begin);
    if (block == blocks.end() || a.end > block->second.end) return;
    const uintptr_t begin = block->first;
    Written& written = block->second.written;
    if (!race::each_run(a, [&](uintptr_t from, uintptr_t to) { written.add(from - begin, to - begin); }))
      written.add(a.begin - begin, a.end - begin);
  }
};

Checker& checker() {
  static Checker& c = *new Checker;
  return c;
}

// Without memory the checker goes on with what it has.
template <class Body>
auto locked(Body&& body) noexcept -> decltype(body(checker())) {
  if (!on()) return {};
  try {
    Checker& c = checker();
    std::lock_guard lock(c.mutex);
    return body(c);
  } catch (const std::bad_alloc&) {
    return {};
  }
}

struct Nothing {};

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

}  // namespace

void start(bool fails) noexcept {
  checker().fails = fails;
  race::watch_for(race::kMemory);
}

void given(const void* address, uint64_t asked, uint64_t bytes, const void* stream) noexcept {
  locked([&](Checker& c) {
    const uintptr_t begin = number(address);
    c.forget(begin, begin + bytes);
    c.blocks.try_emplace(begin,
                         Block{begin + asked, begin + bytes, stream, race::place(), nullptr, true, Written(asked)});
    return Nothing();
  });
}

void taken_back(const void* address) noexcept {
  locked([&](Checker& c) {
    if (const auto block = c.blocks.find(number(address)); block != c.blocks.end()) {
      block->second.live = false;
      block->second.freed = race::place();
    }
    return Nothing();
  });
}

void forget(const void* address, uint64_t bytes) noexcept {
  locked([&](Checker& c) {
    c.forget(number(address), number(address) + bytes);
    return Nothing();
  });
}

const char* task(const char* name, const race::Accesses& accesses) noexcept {
  return locked([&](Checker& c) -> const char* {
    const char* said = nullptr;
    const bool moves = is_copy(name) && std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
                         return access.write && c.at(access.begin) != c.blocks.end();
                       });
    for (const Access& access : accesses) {
      const bool first = &access == accesses.data();
      const bool unread = moves || (first && ignores(name)) || in_place(access, accesses);
      if (const char* text = c.judge(name, access, unread); text && !said) said = text;
    }
    const auto reads = [](const Access& access) { return !access.write; };
    const bool blank = moves && std::any_of(accesses.begin(), accesses.end(), reads) &&
                       std::all_of(accesses.begin(), accesses.end(),
                                   [&](const Access& access) { return access.write || c.blank(access); });
    for (const Access& access : accesses)
      if (access.write && !blank) c.mark(access);
    return c.fails ? said : nullptr;
  });
}

void opaque() noexcept {
  locked([](Checker& c) {
    for (auto& [begin, block] : c.blocks) block.written.all();
    return Nothing();
  });
}

std::vector<Fence> fences(const race::Accesses& accesses, const void* stream) noexcept {
  return locked([&](Checker& c) {
    std::vector<Fence> all;
    const auto add = [&](const Block& b) {
      if (b.live && b.end < b.top)
        all.push_back({reinterpret_cast<const unsigned char*>(b.end), reinterpret_cast<const unsigned char*>(b.top)});
    };
    for (const Access& access : accesses)
      if (const auto block = c.at(access.begin); block != c.blocks.end()) add(block->second);
    if (accesses.empty())
      for (const auto& [begin, block] : c.blocks)
        if (block.stream == stream) add(block);
    return all;
  });
}

const unsigned char* broken(const Fence& fence) noexcept {
  const auto* byte = std::find_if(fence.begin, fence.end, [](unsigned char b) { return b != kFence; });
  return byte == fence.end ? nullptr : byte;
}

const char* wrote_behind(const char* name, const char* place, const unsigned char* byte) noexcept {
  return locked([&](Checker& c) -> const char* {
    const auto block = c.at(number(byte));
    if (block == c.blocks.end()) return nullptr;
    const std::string where = std::to_string(number(byte) - block->second.end);
    const char* text = c.say(3, name, place, "wrote behind a block, at byte " + where + " after its end", block);
    return c.fails ? text : nullptr;
  });
}

uint64_t heap_registered(const void* at, uint64_t bytes) noexcept {
  const race::Asked asked(/*may_wait=*/false);  // an allocator calls, with its lock
  return locked([&](Checker& c) {
    uint64_t handle = 0;
    const std::string wrong = c.heaps.add(number(at), number(at) + bytes, handle);
    if (!wrong.empty())
      c.say(4, "mstxMemHeapRegister", race::place(),
            "registers " + of_bytes(bytes) + " at " + hex(number(at)) + ", " + wrong, "not a heap");
    return handle;
  });
}

void heap_unregistered(uint64_t heap) noexcept {
  locked([&](Checker& c) {
    c.heaps.remove(heap);
    return Nothing();
  });
}

uint64_t region_registered(uint64_t heap, const void* at, uint64_t bytes) noexcept {
  const race::Asked asked(/*may_wait=*/false);  // an allocator calls, with its lock
  return locked([&](Checker& c) {
    uint64_t handle = 0;
    const char* place = race::place();
    const std::string wrong = c.heaps.add_region(heap, number(at), number(at) + bytes, place, handle);
    if (!wrong.empty())
      c.say(4, "mstxMemRegionsRegister", place,
            "registers " + of_bytes(bytes) + " at " + hex(number(at)) + ", " + wrong, "not a region");
    return handle;
  });
}

void region_unregistered(uint64_t handle) noexcept {
  const race::Asked asked(/*may_wait=*/false);
  locked([&](Checker& c) {
    c.heaps.remove_region(handle, race::place());
    return Nothing();
  });
}

void region_unregistered_at(const void* at) noexcept {
  const race::Asked asked(/*may_wait=*/false);
  locked([&](Checker& c) {
    c.heaps.remove_region_at(number(at), race::place());
    return Nothing();
  });
}

uint64_t found() noexcept {
  return locked([](Checker& c) { return uint64_t{c.reports.size()}; });
}

const char* report(uint64_t n) noexcept {
  return locked([&](Checker& c) -> const char* {
    return n < c.reports.size() ? c.reports[static_cast<size_t>(n)].c_str() : nullptr;
  });
}

}  // namespace softnpu::memcheck
