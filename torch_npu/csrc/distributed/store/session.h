// One client as the store sees it: bytes of requests in, bytes of answers out. What carries them is not known here: a
// connection of its own, or a channel of a proxy's link.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "csrc/distributed/store/budget.h"
#include "csrc/distributed/store/protocol.h"
#include "csrc/distributed/store/request.h"
#include "csrc/distributed/store/table.h"

namespace npu::distributed::store {

class Session : public std::enable_shared_from_this<Session> {
 public:
  // What carries the session. `send` and `lose` are called from any thread: an awaited key is brought by another client.
  struct Wire {
    std::function<void(std::string_view)> send;
    std::function<bool()> ready;  // whether the client has taken enough of its answers to be given more
    std::function<void()> lose;   // an answer could not be given: the client is to be closed. Throws nothing
  };
  // `unfinished`: of requests whose end has not come.
  Session(Table& table, Budget& unfinished, Wire wire) : table_(table), wire_(std::move(wire)), kept_(unfinished) {}
  ~Session() { gone(); }

  // By one thread at a time. Throws ProtocolError: the client is to be closed. Requests stay where they are while the client does
  // not take its answers; receive({}) goes on with them.
  void receive(std::string_view bytes);
  // The client is no more; waits for nothing.
  void gone() noexcept;

 private:
  void answer(std::string_view request);
  void answer_key(Query query, Reader& reader);
  void answer_keys(Query query, Reader& reader);
  void await(Query query, WaitPtr wait);
  void put_awaited(std::string& out, Query query, const Wait& wait, std::string_view taken);
  bool arrived(Query query, const Wait* wait, std::string_view taken);
  void keep(std::string_view rest);
  void flush();
  bool waits();
  WaitPtr end_wait() noexcept;

  Table& table_;
  const Wire wire_;
  std::string inbox_;  // the beginning of a request, or requests that must wait
  Share kept_;         // by the inbox
  RequestEnd end_;     // of the request that comes
  std::string out_;    // answers of this receive()
  std::mutex lock_;    // of what follows; taken before the connection's and the table's
  WaitPtr wait_;       // one at a time
};

}  // namespace npu::distributed::store
