// The parallel store's server: a listening socket and some threads, each with the connections it was given in turn.
// Clients of its own host may come by a local socket. It never looks a name up and takes as many waiting connections as the kernel allows.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "csrc/distributed/store/table.h"

namespace npu::distributed::store {

class Server {
 public:
  // `host`: what clients call it; it listens where they find it and nowhere else (place_of() in server.cpp). Port 0: any.
  // `listener`: a bound socket to take over. Throws std::system_error, of a taken port too.
  Server(const std::string& host, uint16_t port, std::optional<int> listener);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const { return port_; }
  // The server of this process at `port`, shared by all who ask while one of them holds it.
  static std::shared_ptr<Server> shared(const std::string& host, uint16_t port, std::optional<int> listener);

 private:
  using Context = boost::asio::io_context;
  template <class Acceptor>
  void accept(Acceptor& acceptor);

  Budget unfinished_{kUnfinished};
  Table table_;  // both outlive the connections, which the contexts own
  std::vector<std::unique_ptr<Context>> contexts_;
  std::optional<boost::asio::ip::tcp::acceptor> acceptor_;
  std::optional<boost::asio::local::stream_protocol::acceptor>
      local_;  // where this host's port is the server's on every address
  size_t next_ = 0;
  uint16_t port_ = 0;
  std::vector<std::thread> threads_;
};

// Allows this process as many open files as the system lets it.
void raise_file_limit();
// A thread that runs `context` and takes no signals: those are for Python's thread.
std::thread run_thread(boost::asio::io_context& context);

}  // namespace npu::distributed::store
