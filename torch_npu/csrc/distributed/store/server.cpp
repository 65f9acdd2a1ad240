#include "csrc/distributed/store/server.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <mutex>

#include "csrc/distributed/store/connection.h"
#include "csrc/distributed/store/local.h"

namespace npu::distributed::store {

namespace asio = boost::asio;
using asio::ip::tcp;
using local = asio::local::stream_protocol;
using boost::system::error_code;

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::thread run_thread(asio::io_context& context) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([&context] {
    pthread_setname_np(pthread_self(), "npu_store");
    auto work = asio::make_work_guard(context);  // runs until it is stopped, with connections or without
    context.run();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

namespace {

// One socket for both families where the machine has IPv6.
tcp::acceptor listen(asio::io_context& context, uint16_t port) {
  error_code error;
  for (tcp protocol : {tcp::v6(), tcp::v4()}) {
    tcp::acceptor acceptor(context);
    acceptor.open(protocol, error);
    if (!error && protocol == tcp::v6()) acceptor.set_option(asio::ip::v6_only(false), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind({protocol, port}, error);
    if (!error) acceptor.listen(SOMAXCONN, error);
    if (!error) return acceptor;
    if (error == asio::error::address_in_use) break;
  }
  throw std::system_error(error);
}

// False where the name is somebody's: clients come by TCP then.
bool listen_locally(local::acceptor& acceptor, uint16_t port) {
  error_code error;
  acceptor.open(local(), error);
  if (!error) acceptor.bind(server_name(port), error);
  if (!error) acceptor.listen(SOMAXCONN, error);
  return !error;
}

}  // namespace

Server::Server(uint16_t port, std::optional<int> listener) {
  raise_file_limit();
  // A thread for every two cores: the clients need cores as well, and threads that wake each other cost more than they serve.
  const unsigned cores = std::thread::hardware_concurrency();
  for (unsigned i = 0; i < std::clamp(cores / 2, 1U, 8U); ++i) contexts_.push_back(std::make_unique<Context>(1));
  if (listener) {
    acceptor_.emplace(*contexts_[0]);
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    if (getsockname(*listener, reinterpret_cast<sockaddr*>(&address), &size)) {
      throw std::system_error(errno, std::generic_category(), "getsockname");
    }
    error_code error;
    acceptor_->assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), *listener, error);
    if (!error) acceptor_->listen(SOMAXCONN, error);
    if (error) throw std::system_error(error);
  } else {
    acceptor_ = listen(*contexts_[0], port);
  }
  port_ = acceptor_->local_endpoint().port();
  accept(*acceptor_);
  if (!listener && listen_locally(local_.emplace(*contexts_[0]), port_)) accept(*local_);
  for (auto& context : contexts_) threads_.push_back(run_thread(*context));
}

Server::~Server() {
  for (auto& context : contexts_) context->stop();
  for (auto& thread : threads_) thread.join();
  local_.reset();  // first: whoever has the port next wants the name
  acceptor_.reset();
  contexts_.clear();
}

template <class Acceptor>
void Server::accept(Acceptor& acceptor) {
  Context& context = *contexts_[next_++ % contexts_.size()];
  acceptor.async_accept(context, [this, &acceptor, &context](const error_code& error, auto socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {
      // Out of file descriptors, usually: the client stays in the queue until some are back.
      auto timer = std::make_shared<asio::steady_timer>(*contexts_[0], std::chrono::milliseconds(100));
      return timer->async_wait([this, &acceptor, timer](const error_code& stopped) {
        if (!stopped) accept(acceptor);
      });
    }
    error_code ignored;  // the client may be gone already: its first read tells
    if constexpr (std::is_same_v<Acceptor, tcp::acceptor>) socket.set_option(tcp::no_delay(true), ignored);
    auto connection = std::make_shared<Connection>(Socket(std::move(socket)), table_);
    asio::post(context, [connection] { connection->start(); });
    accept(acceptor);
  });
}

std::shared_ptr<Server> Server::shared(uint16_t port, std::optional<int> listener) {
  static std::mutex lock;
  static std::map<uint16_t, std::weak_ptr<Server>> servers;
  std::lock_guard guard(lock);
  if (port != 0) {
    if (auto server = servers[port].lock()) return server;
  }
  auto server = std::make_shared<Server>(port, listener);
  servers[server->port()] = server;
  return server;
}

}  // namespace npu::distributed::store
