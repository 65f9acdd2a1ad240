// A connection of the server: the socket of one client, or of a proxy that carries many. Its reads run on the thread it
// was given at the start; send() may be called from any.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "csrc/distributed/store/session.h"

namespace npu::distributed::store {

using Socket = boost::asio::generic::stream_protocol::socket;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Socket socket, Table& table, Budget& unfinished)
      : socket_(std::move(socket)), table_(table), unfinished_(unfinished) {}
  void start();
  void send(std::string_view bytes);

 private:
  void read();
  void receive(std::string_view bytes);
  void receive_frames(std::string_view bytes);
  void feed(uint32_t channel, std::string_view bytes);
  void write();
  template <class Work>
  void guarded(Work&& work);
  void lose() noexcept;
  void close() noexcept;
  bool ready();  // the client takes its answers
  void resume();
  std::shared_ptr<Session> session(uint32_t channel);

  Socket socket_;
  Table& table_;
  Budget& unfinished_;
  std::vector<char> in_ = std::vector<char>(2048);
  bool link_ = false;
  bool stopped_ = false;  // nothing is read until the client has taken what waits for it
  std::string frames_;    // of a link: what is not a whole frame yet
  std::unordered_map<uint32_t, std::shared_ptr<Session>>
      clients_;  // by channel; 0 where the connection is one client's; null: closed, and the proxy does not know yet
  std::mutex lock_;      // of what follows
  std::string waiting_;  // what the socket did not take
  std::string writing_;
  bool closed_ = false;
};

// Frames of a link.
void put_frame(std::string& out, uint32_t channel, std::string_view bytes);
// Calls `each(channel, bytes)` for the whole frames at the front of `buffer` and removes them. Throws ProtocolError where one is larger.
template <class Each>
void take_frames(std::string& buffer, uint32_t largest, Each&& each) {
  std::string_view rest = buffer;
  for (;;) {
    Reader reader(rest);
    uint32_t channel = 0, size = 0;
    if (!reader.value(channel) || !reader.value(size)) break;
    if (size > largest) throw ProtocolError("a frame of " + std::to_string(size) + " bytes");
    if (reader.rest().size() < size) break;
    each(channel, reader.rest().substr(0, size));
    rest = reader.rest().substr(size);
  }
  buffer.erase(0, buffer.size() - rest.size());
}

}  // namespace npu::distributed::store
