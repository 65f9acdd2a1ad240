#include "csrc/distributed/store/server.h"

#include <c10/util/Logging.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdlib>
#include <cstring>
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
    while (!context.stopped()) {
      // The one place that every handler of the server and the proxy is under: none ends the process, which is a job's rank.
      try {
        context.run();
      } catch (const std::exception& error) {
        LOG(ERROR) << "parallel store: " << error.what();
      }
    }
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

namespace {

// Where the server listens: at the address by which it is called, if that is this host's and the same for all hosts. A name that
// stands for a loopback address here (as /etc/hosts often says of a host's own) is another one elsewhere, and an address that no
// interface has leads here by somebody's translation: both mean every interface. ANYCEND_STORE_ADDRESS decides when it is set: an
// address, or "all".
struct Place {
  bool all = true;        // every interface
  bool loopback = false;  // this host only
  asio::ip::address address;
};

Place place_of(const std::string& host) {
  const char* named = std::getenv("ANYCEND_STORE_ADDRESS");
  if (named && !*named) named = nullptr;
  if (named && std::string_view(named) == "all") return {};
  Place place;
  error_code error;
  place.address = asio::ip::make_address(named ? named : host, error);
  if (error && named)
    throw std::invalid_argument("ANYCEND_STORE_ADDRESS=" + std::string(named) + " is neither an address nor \"all\"");
  const bool numeric = !error;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(named ? named : host.c_str(), nullptr, &hints, &found)) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  if (!named && !is_here(*found)) return {};
  tcp::endpoint endpoint;
  endpoint.resize(found->ai_addrlen);
  std::memcpy(endpoint.data(), found->ai_addr, found->ai_addrlen);
  place.address = endpoint.address();
  place.loopback = place.address.is_loopback();
  if (place.address.is_unspecified() || (place.loopback && !numeric && host != "localhost")) return {};
  place.all = false;
  return place;
}

error_code listen(tcp::acceptor& acceptor, tcp protocol, const tcp::endpoint& at, bool loopback) {
  error_code error;
  acceptor.open(protocol, error);
  if (!error && protocol == tcp::v6() && at.address().is_unspecified())
    acceptor.set_option(asio::ip::v6_only(false), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && loopback && setsockopt(acceptor.native_handle(), SOL_SOCKET, SO_BINDTODEVICE, "lo", 3))
    error.assign(errno, boost::system::system_category());
  if (!error) acceptor.bind(at, error);
  if (!error) acceptor.listen(SOMAXCONN, error);
  return error;
}

// One socket for both families where the machine has IPv6. The loopback's is one for all its addresses (localhost has two), bound
// to the device; where the kernel allows that only to root, to the one address.
tcp::acceptor listen(asio::io_context& context, const std::string& host, uint16_t port) {
  const Place place = place_of(host);
  error_code error;
  if (place.all || place.loopback) {
    for (tcp protocol : {tcp::v6(), tcp::v4()}) {
      tcp::acceptor acceptor(context);
      error = listen(acceptor, protocol, {protocol, port}, place.loopback);
      if (!error) return acceptor;
      if (error == asio::error::address_in_use) throw std::system_error(error);
    }
    if (place.all) throw std::system_error(error);
  }
  tcp::acceptor acceptor(context);
  const tcp::endpoint at(place.address, port);
  error = listen(acceptor, at.protocol(), at, false);
  if (error) throw std::system_error(error);
  return acceptor;
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

Server::Server(const std::string& host, uint16_t port, std::optional<int> listener) {
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
    acceptor_ = listen(*contexts_[0], host, port);
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
    accept(acceptor);
    error_code ignored;  // the client may be gone already: its first read tells
    if constexpr (std::is_same_v<Acceptor, tcp::acceptor>) socket.set_option(tcp::no_delay(true), ignored);
    auto connection = std::make_shared<Connection>(Socket(std::move(socket)), table_, unfinished_);
    asio::post(context, [connection] { connection->start(); });
  });
}

std::shared_ptr<Server> Server::shared(const std::string& host, uint16_t port, std::optional<int> listener) {
  static std::mutex lock;
  static std::map<uint16_t, std::weak_ptr<Server>> servers;
  std::lock_guard guard(lock);
  if (port != 0) {
    if (auto server = servers[port].lock()) return server;
  }
  auto server = std::make_shared<Server>(host, port, listener);
  servers[server->port()] = server;
  return server;
}

}  // namespace npu::distributed::store
