// See piece.h.
#include "softnpu/hccl/network/piece.h"

#include <cstring>

namespace softnpu::hccl {

Piece::Piece(const Across& across, const Segment& segment, uint64_t offset, uint64_t bytes, uint32_t number)
    : a_(across),
      segment_{segment.from, segment.to, segment.from_offset + offset, segment.to_offset + offset, bytes},
      number_(number),
      last_(across.hosts.count() - 1),
      origin_(segment.from == kAll ? last_ : across.hosts.of(segment.from)) {}

bool Piece::concerns(const Hosts& hosts) const {
  return segment_.from == kAll || segment_.to == kAll || hosts.here(segment_.from) || hosts.here(segment_.to);
}

void Piece::post(Mail kind, uint32_t host, BlockPtr block, size_t bytes) {
  const uint32_t to = a_.hosts.owner(host, number_);
  sent_.push_back(
      {a_.office.send(kind, a_.hosts.mine(), host, number_, a_.members[to].process.id, std::move(block), bytes), to});
}

Piece::Awaited Piece::ask(Mail kind, uint32_t host, BlockPtr block) {
  return {a_.office.receive(kind, host, a_.hosts.mine(), number_, std::move(block)), a_.hosts.owner(host, number_)};
}

// To those of this host who get it.
void Piece::deliver(const void* from) const {
  auto put = [&](uint32_t r) {
    std::byte* to = a_.recv[r] + segment_.to_offset;
    if (to != from) memcpy(to, from, segment_.bytes);
  };
  if (segment_.to != kAll) return put(segment_.to);
  for (uint32_t r : a_.hosts.here()) put(r);
}

// The result, to the next host that gets it.
void Piece::spread(BlockPtr result) {
  const uint32_t mine = a_.hosts.mine(), next = (mine + 1) % a_.hosts.count();
  if (segment_.to == kAll) {
    if (next != origin_) post(Mail::kResult, next, std::move(result), segment_.bytes);
  } else if (mine == origin_ && !for_host(mine)) {
    post(Mail::kResult, a_.hosts.of(segment_.to), std::move(result), segment_.bytes);
  }
}

void Piece::start() {
  const uint32_t mine = a_.hosts.mine(), previous = (mine + last_) % a_.hosts.count();
  if (for_host(mine) && mine != origin_)
    result_ = segment_.to == kAll
                  ? ask(Mail::kResult, previous, std::make_shared<Block>(segment_.bytes))
                  : ask(Mail::kResult, origin_,
                        std::make_shared<Block>(a_.recv[segment_.to] + segment_.to_offset, segment_.bytes));
  if (segment_.from == kAll) {
    if (mine)
      partial_ =
          ask(Mail::kPartial, mine - 1, std::make_shared<Block>(segment_.bytes / a_.element * a_.reduce.partial_size));
    else
      reduce_on(nullptr);
  } else if (mine == origin_) {
    const std::byte* from = a_.send[segment_.from] + segment_.from_offset;
    if (segment_.to == kAll || !for_host(mine)) spread(std::make_shared<Block>(from, segment_.bytes));
    if (for_host(mine)) deliver(from);
  }
}

// This host's inputs after those of the hosts before it.
void Piece::reduce_on(const Block* partial) {
  const uint32_t mine = a_.hosts.mine();
  const uint64_t count = segment_.bytes / a_.element;
  std::vector<const void*> inputs;
  if (partial) inputs.push_back(partial->data());
  for (uint32_t r : a_.hosts.here()) inputs.push_back(a_.send[r] + segment_.from_offset);
  if (mine != last_) {
    auto block = std::make_shared<Block>(count * a_.reduce.partial_size);
    void* out = block->data();
    (partial ? a_.reduce.extend : a_.reduce.begin)(inputs.data(), inputs.size(), &out, 1, count);
    return post(Mail::kPartial, mine + 1, std::move(block), count * a_.reduce.partial_size);
  }
  std::vector<void*> outputs;
  BlockPtr result;
  if (segment_.to == kAll || !for_host(mine)) {
    result = std::make_shared<Block>(segment_.bytes);
    outputs.push_back(result->data());
  }
  if (segment_.to == kAll)
    for (uint32_t r : a_.hosts.here()) outputs.push_back(a_.recv[r] + segment_.to_offset);
  else if (for_host(mine))
    outputs.push_back(a_.recv[segment_.to] + segment_.to_offset);
  a_.reduce.end(inputs.data(), inputs.size(), outputs.data(), outputs.size(), count);
  if (result) spread(std::move(result));
}

bool Piece::step(Patience& patience) {
  auto came = [&](Awaited* awaited) -> BlockPtr {
    if (!awaited->parcel || !a_.office.through(*awaited->parcel, patience)) return nullptr;
    return std::exchange(awaited->parcel, nullptr)->block;
  };
  bool moved = std::erase_if(sent_, [&](const Awaited& w) { return a_.office.through(*w.parcel, patience); }) > 0;
  if (const BlockPtr partial = came(&partial_)) reduce_on(partial.get()), moved = true;
  if (const BlockPtr result = came(&result_)) {
    deliver(result->data());
    spread(result);
    moved = true;
  }
  return moved;
}

void Piece::blame(std::vector<bool>* ranks) const {
  auto mark = [&](const Awaited& w) {
    if (w.parcel && !w.parcel->done()) (*ranks)[w.rank] = true;
  };
  mark(partial_), mark(result_);
  for (const Awaited& w : sent_) mark(w);
}

}  // namespace softnpu::hccl
