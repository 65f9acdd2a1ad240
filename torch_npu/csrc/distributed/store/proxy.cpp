#include "csrc/distributed/store/proxy.h"

#include <c10/util/Logging.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "csrc/distributed/store/client.h"
#include "csrc/distributed/store/connection.h"
#include "csrc/distributed/store/local.h"
#include "csrc/distributed/store/protocol.h"
#include "csrc/distributed/store/server.h"

namespace npu::distributed::store {

namespace asio = boost::asio;
using boost::system::error_code;
using local = asio::local::stream_protocol;

namespace {

constexpr uint32_t kServersFrame = uint32_t{2} * kLargestRequest;
constexpr size_t kMostWaiting = 4 << 20;  // bytes for one side that does not take them: beyond, the other is not read

// Everything here runs on the proxy's one thread.
class Pipe : public std::enable_shared_from_this<Pipe> {
 public:
  Pipe(Socket socket, size_t buffer) : socket_(std::move(socket)), in_(buffer) {}

  // A client's: while the link has too much waiting, or the client takes nothing of what waits for it, nothing more is read.
  void read(std::function<void(std::string_view)> each, std::function<void()> end, std::weak_ptr<Pipe> other) {
    const auto to = other.lock();
    if (to && (full() || to->full())) {
      held_ = [this, each = std::move(each), end = std::move(end), other = std::move(other)] {
        read(each, end, other);
      };
      return;
    }
    socket_.async_read_some(asio::buffer(in_), [self = shared_from_this(), each = std::move(each), end = std::move(end),
                                                other = std::move(other)](const error_code& error, size_t n) {
      if (error) return end();
      each({self->in_.data(), n});
      self->read(each, end, other);
    });
  }

  void go_on() {
    if (auto held = std::exchange(held_, nullptr)) held();
  }

  void on_written(std::function<void()> then) { written_ = std::move(then); }

  void send(std::string_view bytes) {
    waiting_.append(bytes);
    if (writing_.empty()) write();
  }

  void close() {
    error_code ignored;  // nothing is left to be told
    socket_.close(ignored);
  }

 private:
  void write() {
    if (waiting_.empty()) return;
    writing_.swap(waiting_);
    asio::async_write(socket_, asio::buffer(writing_), [self = shared_from_this()](const error_code& error, size_t) {
      self->writing_.clear();
      if (error) return self->go_on();  // its next read finds the end
      self->write();
      if (self->full()) return;
      self->go_on();
      if (self->written_) self->written_();
    });
  }

  bool full() const { return waiting_.size() + writing_.size() > kMostWaiting; }

  Socket socket_;
  std::vector<char> in_;
  std::string waiting_, writing_;
  std::function<void()> held_, written_;  // own nobody who owns this pipe
};

struct Hub : std::enable_shared_from_this<Hub> {
  Hub(asio::io_context& context, Socket server)
      : acceptor(context, local::endpoint(proxy_name(getpid()))),
        up(std::make_shared<Pipe>(std::move(server), 65536)) {}

  void start() {
    std::string first;
    put(first, Query::kLink);
    up->send(first);
    up->read([self = shared_from_this()](std::string_view bytes) { self->guarded_down(bytes); },
             [self = shared_from_this()] { self->lost(); }, {});
    up->on_written([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      const auto all = self->clients;
      for (const auto& [channel, pipe] : all) pipe->go_on();
    });
    accept();
  }

  void accept() {
    acceptor.async_accept([self = shared_from_this()](const error_code& error, local::socket socket) {
      if (error) return;
      // Only the user who runs the proxy may use it.
      if (same_user(socket.native_handle())) self->add(Socket(std::move(socket)));
      self->accept();
    });
  }

  void add(Socket socket) {
    const uint32_t channel = ++last;
    auto pipe = std::make_shared<Pipe>(std::move(socket), 4096);
    clients[channel] = pipe;
    pipe->read(
        [weak = weak_from_this(), channel](std::string_view bytes) {
          const auto self = weak.lock();
          if (!self) return;
          std::string frame;
          put_frame(frame, channel, bytes);
          self->up->send(frame);
        },
        [weak = weak_from_this(), channel] {
          const auto self = weak.lock();
          if (self && self->clients.erase(channel)) self->end(channel);
        },
        up);
  }

  void down(std::string_view bytes) {
    frames.append(bytes);
    take_frames(frames, kServersFrame, [this](uint32_t channel, std::string_view part) {
      const auto found = clients.find(channel);
      if (found == clients.end()) return;
      if (!part.empty()) return found->second->send(part);
      // The server has closed this one, and holds its channel until it is told that nothing more comes.
      const auto pipe = std::move(found->second);
      clients.erase(found);
      pipe->close();
      end(channel);
    });
  }

  void end(uint32_t channel) {
    std::string frame;
    put_frame(frame, channel, {});
    up->send(frame);
  }

  // What is not a store's is no server.
  void guarded_down(std::string_view bytes) {
    try {
      down(bytes);
    } catch (const std::exception& error) {
      LOG(ERROR) << "parallel store: the proxy gives the server up: " << error.what();
      lost();
    }
  }

  // Without the server nobody can be served: the clients see what they would see without a proxy.
  void lost() {
    error_code ignored;
    acceptor.close(ignored);
    up->close();
    auto all = std::move(clients);
    clients.clear();
    for (auto& [channel, pipe] : all) pipe->close();
  }

  local::acceptor acceptor;
  std::shared_ptr<Pipe> up;
  uint32_t last = 0;
  std::unordered_map<uint32_t, std::shared_ptr<Pipe>> clients;
  std::string frames;
};

}  // namespace

struct Proxy::Thread {
  asio::io_context context{1};
  std::thread thread;
  ~Thread() {
    context.stop();
    if (thread.joinable()) thread.join();
  }
};

Proxy::Proxy(const std::string& host, uint16_t port, std::chrono::milliseconds timeout)
    : thread_(std::make_unique<Thread>()) {
  raise_file_limit();
  const int fd = connect_store(host, port, std::chrono::steady_clock::now() + timeout);
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size);
  Socket server(thread_->context, asio::generic::stream_protocol(address.ss_family, 0), fd);
  std::make_shared<Hub>(thread_->context, std::move(server))->start();
  thread_->thread = run_thread(thread_->context);
}

Proxy::~Proxy() = default;

}  // namespace npu::distributed::store
