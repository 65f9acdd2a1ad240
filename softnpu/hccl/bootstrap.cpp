// See bootstrap.h: a rank's side.
#include "softnpu/hccl/bootstrap.h"

#include <poll.h>

#include <cstring>

#include "softnpu/hccl/status.h"
#include "softnpu/hccl/whitelist.h"

namespace softnpu::hccl {
namespace {

constexpr int kTries = 5;
constexpr auto kRefusals = std::chrono::seconds(2);  // a root that refuses for so long has ended

[[noreturn]] void throw_failure(const Frame& frame) {
  uint32_t code = HCCL_E_INTERNAL;
  if (frame.bytes.size() < sizeof code) fail(HCCL_E_TCP_TRANSFER, "the root sent a malformed answer");
  memcpy(&code, frame.bytes.data(), sizeof code);
  throw Error{
      static_cast<HcclResult>(code),
      std::string(reinterpret_cast<const char*>(frame.bytes.data()) + sizeof code, frame.bytes.size() - sizeof code)};
}

}  // namespace

Bootstrap::Bootstrap(const Settings& s, const RootInfo& root, Root how, uint32_t ranks, const Member& self,
                     std::chrono::milliseconds limit)
    : root_(root.address + " port " + std::to_string(root.port)), limit_(limit) {
  Whitelist(s).require(root.address);
  enter(root, how, ranks, self);
  const Frame table = receive("the list of ranks");
  if (table.type != kTable || table.bytes.size() != ranks * sizeof(Member))
    fail(HCCL_E_TCP_TRANSFER, "the root at %s sent a malformed list of ranks", root_.c_str());
  members_.resize(ranks);
  memcpy(members_.data(), table.bytes.data(), table.bytes.size());
}

// A root that strangers throng hangs up on the oldest of those who have not proved anything yet (and this rank may have been
// stopped before it could): it is tried a few times.
void Bootstrap::enter(const RootInfo& root, Root how, uint32_t ranks, const Member& self) {
  const Deadline refused = how == Root::kListens ? Clock::now() + kRefusals : deadline_;
  for (int tries = 1;; ++tries) {
    socket_ = tcp_connect(root.address, root.port, self.address, deadline_, refused);
    const Hello mine = hello(root.key);
    Frame frame;
    try {
      send_frame(socket_.get(), kHello, &mine, sizeof mine);
      frame = receive("a proof that it is the root");
    } catch (const Error& error) {
      if (error.code != HCCL_E_TCP_TRANSFER || tries == kTries) throw;
      continue;
    }
    Challenge theirs;
    if (frame.type == kChallenge && frame.bytes.size() == sizeof theirs)
      memcpy(&theirs, frame.bytes.data(), sizeof theirs);
    else
      theirs = {};
    if (!proves(root.key, mine, theirs))
      fail(HCCL_E_TCP_CONNECT, "what listens at %s is not the root of this communicator: it does not know its key",
           root_.c_str());
    Join join{};
    join.said.ranks = ranks, join.said.limit_ms = static_cast<uint32_t>(limit_.count()), join.said.member = self;
    join.proof = answer(root.key, mine, theirs, bytes_of(join.said));
    return send_frame(socket_.get(), kJoin, &join, sizeof join);
  }
}

Frame Bootstrap::receive(const char* what) {
  Frame frame;
  try {
    // The root reports who is missing when its own time is over: give it a moment more than ourselves.
    frame = recv_frame(socket_.get(), deadline_ + std::chrono::seconds(2));
  } catch (const Error& error) {
    fail(error.code, "waiting for %s from the root at %s: %s", what, root_.c_str(), error.text.c_str());
  }
  if (frame.type == kFailed) throw_failure(frame);
  return frame;
}

void Bootstrap::check() const {
  if (Clock::now() > deadline_)
    fail(HCCL_E_TIMEOUT, "the ranks of this host could not be linked within the time limit (HCCL_CONNECT_TIMEOUT)");
  pollfd p{socket_.get(), POLLIN, 0};
  if (poll(&p, 1, 0) <= 0) return;
  const Frame frame = recv_frame(socket_.get(), Clock::now() + std::chrono::seconds(2));
  if (frame.type == kFailed) throw_failure(frame);
  fail(HCCL_E_TCP_TRANSFER, "the root at %s spoke out of turn", root_.c_str());
}

std::vector<std::string> Bootstrap::exchange_names(const std::string& own) {
  send_frame(socket_.get(), kName, own.data(), own.size());
  const Frame frame = receive("the network addresses of all ranks");
  std::vector<std::string> names;
  const auto* at = reinterpret_cast<const char*>(frame.bytes.data());
  for (size_t left = frame.bytes.size(); left >= sizeof(uint32_t);) {
    uint32_t size;
    memcpy(&size, at, sizeof size);
    at += sizeof size, left -= sizeof size;
    if (size > left) break;
    names.emplace_back(at, size);
    at += size, left -= size;
  }
  if (frame.type != kNames || names.size() != members_.size())
    fail(HCCL_E_TCP_TRANSFER, "the root at %s sent a malformed list of network addresses", root_.c_str());
  return names;
}

void Bootstrap::confirm(const std::string& failure) {
  send_frame(socket_.get(), kLinked, failure.data(), failure.size());
  const Frame go = receive("the confirmation that all ranks are linked");
  if (go.type != kGo || go.bytes.size() != sizeof root_process_)
    fail(HCCL_E_TCP_TRANSFER, "the root at %s spoke out of turn", root_.c_str());
  memcpy(root_process_.data(), go.bytes.data(), sizeof root_process_);
}

}  // namespace softnpu::hccl
