#include "csrc/distributed/store/parallel_store.h"

#include <thread>

#include "csrc/distributed/store/server.h"

namespace npu::distributed {

using std::chrono::steady_clock;
using store::Answer;
using store::Client;
using store::Deadline;
using store::Query;

namespace {

// TCPStore's clients write every key with this in front, and so both see the same keys.
const std::string kPrefix = "/";

class Request {
 public:
  explicit Request(Query query) { store::put(bytes_, query); }
  Request& key(const std::string& key) {
    store::put<uint64_t>(bytes_, kPrefix.size() + key.size());
    bytes_.append(kPrefix).append(key);
    return *this;
  }
  Request& keys(const std::vector<std::string>& keys) {
    number<uint64_t>(keys.size());
    for (const auto& each : keys) key(each);
    return *this;
  }
  Request& bytes(const ParallelStore::Bytes& value) {
    store::put_text(bytes_, {reinterpret_cast<const char*>(value.data()), value.size()});
    return *this;
  }
  template <class T>
  Request& number(T value) {
    store::put<T>(bytes_, value);
    return *this;
  }
  operator std::string_view() const { return bytes_; }

 private:
  std::string bytes_;
};

ParallelStore::Bytes to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

// A wait was taken back: nothing more comes of it, and the connection serves on.
struct Canceled : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Zero is PyTorch's "no timeout".
Deadline after(std::chrono::milliseconds timeout) {
  return steady_clock::now() + (timeout.count() > 0 ? timeout : std::chrono::hours(24 * 365));
}

const std::string kRemedy = "; clone() makes a store with a new connection";

std::string list(const std::vector<std::string>& keys) {
  std::string out;
  for (const auto& key : keys) out += (out.empty() ? "" : ", ") + key;
  return out;
}

}  // namespace

ParallelStore::ParallelStore(std::string host, ParallelStoreOptions options)
    : HasBarrier<c10d::Store>(options.timeout), host_(std::move(host)), options_(options) {
  const Deadline deadline = after(timeout_);
  if (options_.is_server) {
    try {
      server_ = options_.multi_tenant ? store::Server::shared(host_, options_.port, options_.listen_fd)
                                      : std::make_shared<store::Server>(host_, options_.port, options_.listen_fd);
    } catch (const std::system_error& error) {
      C10_THROW_ERROR(DistNetworkError, "the parallel store cannot listen on port " + std::to_string(options_.port) +
                                            ": " + error.code().message() +
                                            ". Name a free one (MASTER_PORT, or 0 for any)");
    }
    options_.port = server_->port();
  }
  try {
    if (options_.proxy) {
      client_ = std::make_unique<Client>(*options_.proxy, deadline);
    } else {
      client_ = std::make_unique<Client>(host_, options_.port, deadline);
    }
  } catch (const std::runtime_error& error) {
    const std::string waited = " (tried for " + std::to_string(timeout_.count()) + " ms)";
    C10_THROW_ERROR(DistNetworkError,
                    error.what() + waited + ". Check MASTER_ADDR and MASTER_PORT, and that rank 0 runs");
  }
  if (options_.world_size) wait_for_workers();
}

ParallelStore::~ParallelStore() = default;

void ParallelStore::wait_for_workers() {
  int64_t come = add("init/", 1);
  if (!options_.is_server || !options_.wait_for_workers) return;
  const Deadline deadline = after(timeout_);
  for (auto pause = Milliseconds(1); come < *options_.world_size; pause = std::min(2 * pause, Milliseconds(50))) {
    if (steady_clock::now() + pause > deadline) {
      C10_THROW_ERROR(DistStoreError, "only " + std::to_string(come) + " of " + std::to_string(*options_.world_size) +
                                          " workers came to the store within " + std::to_string(timeout_.count()) +
                                          " ms");
    }
    std::this_thread::sleep_for(pause);
    come = add("init/", 0);
  }
}

c10::intrusive_ptr<c10d::Store> ParallelStore::clone() {
  ParallelStoreOptions options = options_;
  options.is_server = false;
  options.world_size.reset();
  options.timeout = timeout_;
  auto copy = c10::make_intrusive<ParallelStore>(host_, options);
  copy->server_ = server_;
  return copy;
}

template <class Talk>
auto ParallelStore::talk(const std::string& what, Talk&& talk) {
  std::lock_guard lock(lock_);
  if (!client_) C10_THROW_ERROR(DistNetworkError, what + ": the connection is over since " + lost_ + kRemedy);
  try {
    return talk(*client_);
  } catch (const Canceled& error) {
    C10_THROW_ERROR(DistStoreError, what + ": " + error.what());
  } catch (const store::TimedOut& error) {
    lose(what, error);
    C10_THROW_ERROR(DistStoreError, lost_ + "; a late answer would be taken for the next request's" + kRemedy);
  } catch (const std::exception& error) {
    lose(what, error);
    C10_THROW_ERROR(DistNetworkError, lost_);
  }
}

void ParallelStore::lose(const std::string& what, const std::exception& error) {
  client_.reset();
  lost_ = what + ": " + error.what();
}

Deadline ParallelStore::soon() const { return steady_clock::now() + options_.answer_timeout; }

std::string ParallelStore::await(std::string_view request, Milliseconds timeout, bool value) {
  client_->send(request);
  bool late = false;
  try {
    if (client_->value<Answer>(after(timeout)) != Answer::kDone) throw store::ConnectionLost("the server gave it up");
  } catch (const store::TimedOut&) {
    client_->send(Request(Query::kCancelWait));
    if (client_->value<Answer>(soon()) == Answer::kCanceled) {
      throw Canceled("timeout after " + std::to_string(timeout.count()) + "ms");
    }
    late = true;  // it came while it was taken back: the cancellation's answer follows
  }
  std::string out = value ? client_->text(soon()) : std::string();
  if (late) client_->value<Answer>(soon());
  return out;
}

void ParallelStore::set(const std::string& key, const Bytes& value) {
  talk("set " + key, [&](Client& client) { client.send(Request(Query::kSet).key(key).bytes(value)); });
}

ParallelStore::Bytes ParallelStore::compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) {
  return talk("compare_set " + key, [&](Client& client) {
    client.send(Request(Query::kCompareSet).key(key).bytes(expected).bytes(desired));
    return to_bytes(client.text(soon()));
  });
}

ParallelStore::Bytes ParallelStore::get(const std::string& key) {
  return talk("get " + key,
              [&](Client& client) { return to_bytes(await(Request(Query::kWaitGet).key(key), timeout_, true)); });
}

int64_t ParallelStore::add(const std::string& key, int64_t value) {
  return talk("add " + key, [&](Client& client) {
    client.send(Request(Query::kAdd).key(key).number(value));
    return client.value<int64_t>(soon());
  });
}

bool ParallelStore::deleteKey(const std::string& key) {
  return talk("delete_key " + key, [&](Client& client) {
    client.send(Request(Query::kDelete).key(key));
    return client.value<int64_t>(soon()) > 0;
  });
}

bool ParallelStore::check(const std::vector<std::string>& keys) {
  return talk("check " + list(keys), [&](Client& client) {
    client.send(Request(Query::kCheck).keys(keys));
    return client.value<uint8_t>(soon()) == 0;
  });
}

int64_t ParallelStore::getNumKeys() {
  return talk("num_keys", [&](Client& client) {
    client.send(Request(Query::kNumKeys));
    return client.value<int64_t>(soon());
  });
}

void ParallelStore::wait(const std::vector<std::string>& keys, const Milliseconds& timeout) {
  talk("wait for " + list(keys), [&](Client& client) { await(Request(Query::kWait).keys(keys), timeout); });
}

void ParallelStore::append(const std::string& key, const Bytes& value) {
  talk("append " + key, [&](Client& client) { client.send(Request(Query::kAppend).key(key).bytes(value)); });
}

std::vector<ParallelStore::Bytes> ParallelStore::multiGet(const std::vector<std::string>& keys) {
  return talk("multi_get " + list(keys), [&](Client& client) {
    await(Request(Query::kWait).keys(keys), timeout_);
    client.send(Request(Query::kMultiGet).keys(keys));
    std::vector<Bytes> out;
    for (size_t i = 0; i < keys.size(); ++i) out.push_back(to_bytes(client.text(soon())));
    return out;
  });
}

void ParallelStore::multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) {
  TORCH_CHECK_VALUE(keys.size() == values.size(), "multi_set: ", keys.size(), " keys and ", values.size(), " values");
  talk("multi_set " + list(keys), [&](Client& client) {
    Request request(Query::kMultiSet);
    request.number<uint64_t>(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) request.key(keys[i]).bytes(values[i]);
    client.send(request);
  });
}

void ParallelStore::queuePush(const std::string& key, const Bytes& value) {
  talk("queue_push " + key, [&](Client& client) { client.send(Request(Query::kQueuePush).key(key).bytes(value)); });
}

ParallelStore::Bytes ParallelStore::queuePop(const std::string& key, bool block) {
  const auto first = talk("queue_pop " + key, [&](Client& client) -> std::optional<Bytes> {
    if (block) return to_bytes(await(Request(Query::kWaitPop).key(key), timeout_, true));
    client.send(Request(Query::kQueuePop).key(key));
    if (client.value<int64_t>(soon()) == 0) return std::nullopt;
    return to_bytes(client.text(soon()));
  });
  if (!first) C10_THROW_ERROR(DistQueueEmptyError, "queue is empty");
  return *first;
}

int64_t ParallelStore::queueLen(const std::string& key) {
  return talk("queue_len " + key, [&](Client& client) {
    client.send(Request(Query::kQueueLength).key(key));
    return client.value<int64_t>(soon());
  });
}

std::vector<std::string> ParallelStore::listKeys() {
  return talk("list_keys", [&](Client& client) {
    client.send(Request(Query::kListKeys));
    std::vector<std::string> out(client.value<int64_t>(soon()));
    for (auto& key : out) key = client.text(soon()).substr(kPrefix.size());
    return out;
  });
}

void ParallelStore::barrier(const std::string& key, int64_t world_size, const Milliseconds& timeout) {
  TORCH_CHECK_VALUE(world_size > 0, "barrier ", key, ": world_size must be positive, not ", world_size);
  talk("barrier " + key, [&](Client& client) { await(Request(Query::kBarrier).key(key).number(world_size), timeout); });
}

}  // namespace npu::distributed
