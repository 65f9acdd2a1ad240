// See outgoing.h.
#include "softnpu/hccl/network/outgoing.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

constexpr size_t kSendShare = 4 << 20;  // of one connection, before the others' turn

// "tcp <port> <address>"
Fd call(const std::string& name, const std::string& from) {
  const size_t space = name.find(' ', kTcpName.size());
  if (!name.starts_with(kTcpName) || space == std::string::npos)
    fail(HCCL_E_TCP_CONNECT,
         "the other host uses UCX, and this one does not: it has no RDMA card, and UCX_TLS is not set here as it is "
         "there");
  const int port = atoi(name.c_str() + kTcpName.size());
  return tcp_call(name.substr(space + 1), static_cast<uint16_t>(port), from);
}

}  // namespace

Outgoing::Outgoing(const Addresses::Place& to, const std::string& from)
    : socket_(call(to.name, from)), key_(to.key), where_(to.name.substr(kTcpName.size())), hello_(hello(to.key)) {}

Outgoing::~Outgoing() {
  for (const ParcelPtr& parcel : queue_) parcel->end(Parcel::kLost, why_);
}

void Outgoing::go_on(bool readable) {
  if (state_ != kOpen) {
    greet();
  } else if (char end; readable) {  // the other side says nothing any more: what can be read is its end
    const ssize_t got = recv(socket_.get(), &end, 1, MSG_DONTWAIT);
    if (got >= 0 || (errno != EAGAIN && errno != EINTR))
      fail(HCCL_E_TCP_TRANSFER, "the connection was closed by the other side");
  }
  if (state_ == kOpen) pump();
}

void Outgoing::greet() {
  auto say = [&](uint32_t type, const void* data, size_t size) {
    const std::string frame = frame_bytes(type, data, size);  // the first bytes on this connection: they fit
    if (::send(socket_.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
        static_cast<ssize_t>(frame.size()))
      fail(HCCL_E_TCP_TRANSFER, "send: %s", strerror(errno));
  };
  if (state_ == kCalling) {
    const std::optional<int> error = tcp_called(socket_.get());
    if (!error) return;
    if (*error) fail(HCCL_E_TCP_CONNECT, "cannot connect to %s: %s", where_.c_str(), strerror(*error));
    say(kWireHello, &hello_, sizeof hello_);
    state_ = kGreeted;
  }
  const std::optional<Frame> frame = frames_.read(socket_.get(), sizeof(Challenge));
  if (!frame) return;
  Challenge theirs{};
  if (frame->type == kWireChallenge && frame->bytes.size() == sizeof theirs)
    memcpy(&theirs, frame->bytes.data(), sizeof theirs);
  if (!proves(key_, hello_, theirs))
    fail(HCCL_E_TCP_CONNECT, "what listens at %s does not know the communicator's key", where_.c_str());
  const Digest proof = answer(key_, hello_, theirs, "parcels");
  say(kWireProof, &proof, sizeof proof);
  state_ = kOpen;
}

void Outgoing::pump() {
  for (size_t share = 0; !queue_.empty() && share < kSendShare;) {
    const Parcel& parcel = *queue_.front();
    ParcelHead head{parcel.tag, parcel.bytes};
    iovec parts[2];
    size_t count = 0;
    if (sent_ < sizeof head) parts[count++] = {reinterpret_cast<char*>(&head) + sent_, sizeof head - sent_};
    const size_t at = std::max(sent_, sizeof head) - sizeof head;
    if (at < parcel.bytes) parts[count++] = {parcel.block->data() + at, parcel.bytes - at};
    msghdr message{};
    message.msg_iov = parts, message.msg_iovlen = count;
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) fail(HCCL_E_TCP_TRANSFER, "send: %s", strerror(errno));
    sent_ += static_cast<size_t>(sent), share += static_cast<size_t>(sent);
    if (sent_ < sizeof head + parcel.bytes) continue;
    queue_.front()->end(Parcel::kThrough);
    queue_.pop_front();
    sent_ = 0;
  }
}

void Outgoing::let_go(const ParcelPtr& parcel) {
  const auto found = std::find(queue_.begin(), queue_.end(), parcel);
  if (found == queue_.end() || (found == queue_.begin() && sent_)) return;
  queue_.erase(found);
  parcel->end(Parcel::kLost, "nobody waits for it any more");
}

}  // namespace softnpu::hccl
