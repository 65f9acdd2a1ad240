// One client as the store sees it: bytes of requests in, bytes of answers out. What carries them is not known here: a
// connection of its own, or a channel of a proxy's link.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "csrc/distributed/store/protocol.h"
#include "csrc/distributed/store/table.h"

namespace npu::distributed::store {

class Session : public std::enable_shared_from_this<Session> {
 public:
  // `send` may be called from any thread: an awaited key is brought by another client.
  // `ready`: whether the client has taken enough of its answers to be given more.
  Session(Table& table, std::function<void(std::string_view)> send, std::function<bool()> ready)
      : table_(table), send_(std::move(send)), ready_(std::move(ready)) {}
  ~Session() { gone(); }

  // By one thread at a time. Throws ProtocolError: the client is to be closed. Requests stay where they are while the client does
  // not take its answers; receive({}) goes on with them.
  void receive(std::string_view bytes);
  // The client is no more; waits for nothing.
  void gone();

 private:
  bool answer(Reader& reader);
  bool answer_key(Query query, Reader& reader);
  bool answer_keys(Query query, Reader& reader);
  void await(Query query, WaitPtr wait);
  void flush();
  WaitPtr end_wait();

  Table& table_;
  std::function<void(std::string_view)> send_;
  std::function<bool()> ready_;
  std::string inbox_;  // the beginning of a request, or requests that must wait
  std::string out_;    // answers of this receive()
  std::mutex lock_;    // of what follows
  WaitPtr wait_;
};

}  // namespace npu::distributed::store
