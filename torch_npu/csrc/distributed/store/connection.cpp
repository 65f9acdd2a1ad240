#include "csrc/distributed/store/connection.h"

#include <c10/util/Logging.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include "csrc/distributed/store/protocol.h"

namespace npu::distributed::store {

namespace asio = boost::asio;
using boost::system::error_code;

void put_frame(std::string& out, uint32_t channel, std::string_view bytes) {
  put<uint32_t>(out, channel);
  put<uint32_t>(out, static_cast<uint32_t>(bytes.size()));
  out.append(bytes);
}

constexpr size_t kMostWaiting = 4 << 20;    // bytes of answers: beyond, no request of this client is read
constexpr uint32_t kProxysFrame = 1 << 20;  // a proxy sends on what one read gave it
constexpr size_t kMostChannels = 64 << 10;

// Whatever goes wrong for a connection ends that one: it is not one of our clients, one that has gone mad, or too large for us. It
// sees a closed connection; the reason is in the log at its level INFO, which strangers must not be able to fill.
template <class Work>
void Connection::guarded(Work&& work) {
  try {
    work();
  } catch (const std::exception& error) {
    LOG(INFO) << "parallel store: a client's connection is closed: " << error.what();
    close();
  }
}

void Connection::start() {
  error_code ignored;  // sends wait for their turn themselves
  socket_.native_non_blocking(true, ignored);
  guarded([this] { read(); });
}

void Connection::read() {
  auto handler = [self = shared_from_this()](const error_code& error, size_t n) {
    if (error) return self->close();
    self->guarded([&] {
      self->receive({self->in_.data(), n});
      if (n == self->in_.size() && n < 65536) self->in_.resize(65536);
      if (self->ready()) self->read();
    });
  };
  socket_.async_read_some(asio::buffer(in_), std::move(handler));
}

// Null where the client was closed.
std::shared_ptr<Session> Connection::session(uint32_t channel) {
  if (const auto found = clients_.find(channel); found != clients_.end()) return found->second;
  if (clients_.size() >= kMostChannels) throw ProtocolError("more clients than a proxy may have");
  // The connection owns its sessions: they must not own it.
  auto send = [weak = weak_from_this(), link = link_, channel](std::string_view bytes) {
    auto self = weak.lock();
    if (!self) return;
    if (!link) return self->send(bytes);
    std::string frame;
    put_frame(frame, channel, bytes);
    self->send(frame);
  };
  auto ready = [weak = weak_from_this()] {
    const auto self = weak.lock();
    return self && self->ready();
  };
  auto lose = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->lose();
  };
  auto made = std::make_shared<Session>(table_, unfinished_, Session::Wire{send, ready, lose});
  return clients_.emplace(channel, std::move(made)).first->second;
}

void Connection::receive(std::string_view bytes) {
  if (link_) return receive_frames(bytes);
  if (clients_.empty() && static_cast<Query>(bytes[0]) == Query::kLink) {
    link_ = true;
    return receive_frames(bytes.substr(1));
  }
  feed(0, bytes);
}

// A proxy's client that is to be closed is no reason to close the others.
void Connection::feed(uint32_t channel, std::string_view bytes) {
  const auto session = this->session(channel);
  if (!session) return;
  if (!link_) return session->receive(bytes);
  try {
    session->receive(bytes);
  } catch (const std::exception& error) {
    LOG(INFO) << "parallel store: a proxy's client is closed: " << error.what();
    session->gone();
    clients_[channel] = nullptr;
    std::string end;
    put_frame(end, channel, {});
    send(end);
  }
}

void Connection::receive_frames(std::string_view bytes) {
  frames_.append(bytes);
  take_frames(frames_, kProxysFrame, [this](uint32_t channel, std::string_view part) {
    if (!part.empty()) return feed(channel, part);
    if (auto found = clients_.find(channel); found != clients_.end()) {
      if (found->second) found->second->gone();
      clients_.erase(found);
    }
  });
}

// What has not been taken is on its way to be written: when it is, resume() comes. On the connection's thread.
bool Connection::ready() {
  std::lock_guard lock(lock_);
  stopped_ = stopped_ || waiting_.size() + writing_.size() > kMostWaiting;
  return !stopped_;
}

// Goes on with the requests that were left, and reads again. On the connection's thread.
void Connection::resume() {
  if (!std::exchange(stopped_, false) || !ready()) return;
  std::vector<uint32_t> all;  // its answers may wait again, and it may be closed
  for (const auto& [channel, session] : clients_) all.push_back(channel);
  for (const uint32_t channel : all) feed(channel, {});
  if (ready()) read();
}

void Connection::send(std::string_view bytes) {
  std::lock_guard lock(lock_);
  if (closed_) return;
  if (waiting_.empty() && writing_.empty()) {
    const ssize_t n = ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) bytes.remove_prefix(n);
    if (bytes.empty()) return;
    // A broken connection is found by the pending read.
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->guarded([&] { self->write(); }); });
  }
  waiting_.append(bytes);
}

void Connection::write() {
  std::lock_guard lock(lock_);
  if (closed_ || !writing_.empty() || waiting_.empty()) return;
  writing_.swap(waiting_);
  auto handler = [self = shared_from_this()](const error_code& error, size_t) {
    {
      std::lock_guard lock(self->lock_);
      self->writing_.clear();
    }
    if (error) return self->close();
    self->guarded([&] {
      self->write();
      self->resume();
    });
  };
  asio::async_write(socket_, asio::buffer(writing_), std::move(handler));
}

// From any thread: the pending read or write finds the end, and closes.
void Connection::lose() noexcept {
  std::lock_guard lock(lock_);
  if (!closed_) ::shutdown(socket_.native_handle(), SHUT_RDWR);
}

void Connection::close() noexcept {
  for (auto& [channel, session] : clients_)
    if (session) session->gone();
  clients_.clear();
  stopped_ = false;
  std::lock_guard lock(lock_);
  closed_ = true;
  error_code ignored;  // nothing is left to be told
  socket_.close(ignored);
}

}  // namespace npu::distributed::store
