#include "softnpu/ascendc/runtime/uses.h"

#include <algorithm>
#include <cstring>

namespace softnpu::ascendc {

void Uses::join(Known& into, const Known& from) {
  for (const auto& [block, clock] : from) {
    Clock& mine = into[block];
    for (size_t u = 0; u < clock.size(); ++u) mine[u] = std::max(mine[u], clock[u]);
  }
}

void Uses::tell(uint64_t word, uint32_t block, const uint32_t* clock) {
  Known& told = words_[word];
  join(told, blocks_[block]);
  Clock own;
  std::copy_n(clock, own.size(), own.begin());
  join(told, {{block, own}});
}

void Uses::hear(uint64_t word, uint32_t block) {
  if (const auto told = words_.find(word); told != words_.end()) join(blocks_[block], told->second);
}

bool Uses::ordered(const softnpuAscendcUse& before, const softnpuAscendcUse& now, const uint32_t* known) const {
  if (before.block == now.block) return known[before.unit] >= before.when;
  const auto mine = blocks_.find(now.block);
  if (mine == blocks_.end()) return false;
  const auto its = mine->second.find(before.block);
  return its != mine->second.end() && its->second[before.unit] >= before.when;
}

// The stretch that begins at `at`, after cutting the one that it lies in.
std::map<Uses::Address, Uses::Stretch>::iterator Uses::split(Address at) {
  auto next = stretches_.lower_bound(at);
  if (next != stretches_.end() && next->first == at) return next;
  if (next == stretches_.begin()) return next;
  auto before = std::prev(next);
  if (before->second.end <= at) return next;
  Stretch rest = before->second;
  before->second.end = at;
  return stretches_.emplace_hint(next, at, std::move(rest));
}

bool Uses::piece(const softnpuAscendcUse& use, Address start, const uint32_t* known, const uint8_t* value,
                 softnpuAscendcUse* other) {
  const Address end = start + use.bytes;
  split(end);
  auto at = split(start);
  for (Address from = start; from < end; ++at) {
    if (at == stretches_.end() || at->first > from) {  // nobody has used this yet
      const Address gap = at == stretches_.end() ? end : std::min(end, at->first);
      at = stretches_.emplace_hint(at, from, Stretch{gap, {}});
    }
    Stretch& s = at->second;
    const bool changes = value == nullptr || memcmp(reinterpret_cast<const void*>(from), value + (from - start),
                                                    static_cast<size_t>(s.end - from)) != 0;
    const auto over = [&](const softnpuAscendcUse& before) { return ordered(before, use, known); };
    for (const softnpuAscendcUse& before : s.uses) {
      if (before.kind == use.kind && use.kind != SOFTNPU_ASCENDC_WRITES) continue;
      // A word of the scalar units' is how kernels make flags of their own (include/ascendc/global_order.h).
      if (use.unit == SOFTNPU_ASCENDC_SCALAR && before.unit == use.unit) continue;
      if (!changes && before.kind != SOFTNPU_ASCENDC_ADDS) continue;
      if (over(before)) continue;
      *other = before;
      other->start = reinterpret_cast<const void*>(from);
      other->bytes = s.end - from;
      return false;
    }
    if (use.kind == SOFTNPU_ASCENDC_WRITES) {
      std::erase_if(s.uses, over);
    } else {
      std::erase_if(s.uses, [&](const softnpuAscendcUse& u) {
        return u.block == use.block && u.unit == use.unit && u.kind == use.kind;
      });
    }
    s.uses.push_back(use);
    from = s.end;
  }
  return true;
}

bool Uses::add(const softnpuAscendcUse& use, const uint32_t* known, const uint8_t* value, uint64_t value_step,
               softnpuAscendcUse* other) {
  if (use.bytes == 0) return true;
  for (uint64_t i = 0; i < use.count; ++i)
    if (!piece(use, reinterpret_cast<Address>(use.start) + i * use.step, known,
               value ? value + i * value_step : nullptr, other))
      return false;
  return true;
}

}  // namespace softnpu::ascendc
