// See mailbox.h. In the group's store, under its key: asked/B counts who asked rank B, asked/B/A says that rank A did. A look is one
// request for each open mailbox.
#include "csrc/distributed/mailbox.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "csrc/distributed/store/parallel_store.h"

namespace npu::distributed {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kSoon{10},
    kLate{250};  // between two looks: after something new, and when nothing has come for long
constexpr auto kStuck = std::chrono::seconds(1);  // how long an end waits for who asks a store that does not answer

std::atomic<bool> all_closed{false};

std::string count_of(const std::string& key, int rank) { return key + "/asked/" + std::to_string(rank); }
std::string flag_of(const std::string& key, int to, int from) { return count_of(key, to) + "/" + std::to_string(from); }

// The store below all prefixes, and these. (No dynamic_intrusive_pointer_cast: one that fails loses a reference.)
struct Place : c10d::PrefixStore {  // never made: a derived class may name the prefix
  static StorePtr below(StorePtr store, std::string& prefix) {
    while (auto* const prefixed = dynamic_cast<c10d::PrefixStore*>(store.get())) {
      const std::string& own = prefixed->*(&Place::prefix_);
      prefix = prefix.empty() ? own : own + "/" + prefix;
      store = prefixed->getUnderlyingStore();
    }
    return store;
  }
};

// Two sockets' stores do one request at a time, and the program may wait in its for long; the others are used as they are.
StorePtr another_connection(const StorePtr& store) {
  const bool sockets = dynamic_cast<c10d::TCPStore*>(store.get()) || dynamic_cast<ParallelStore*>(store.get());
  return sockets ? store->clone() : store;
}

}  // namespace

// One group's mailbox. `mutex` guards what changes; the owner is called without it.
struct Asked {
  Asked(std::string key, int rank, int size, std::string prefix, Mailbox::Owner owner)
      : key(std::move(key)), rank(rank), size(size), prefix(std::move(prefix)), owner(std::move(owner)) {}

  Mailbox::Owner whose() {
    std::lock_guard<std::mutex> lock(mutex);
    return owner;
  }
  const std::string key;
  const int rank, size;
  const std::string prefix;
  const pid_t process = getpid();
  c10d::Store* shared = nullptr;  // names the listener

  std::mutex mutex;
  std::condition_variable changed;
  bool open = true;
  Mailbox::Owner owner;   // of nobody when it is closed
  int busy = 0;           // joins under way
  std::set<int> joining;  // peers
  int64_t seen = 0;       // questions
  bool waiting = false;   // some who asked may not be answered yet

  void leave(int peer) {
    std::lock_guard<std::mutex> lock(mutex);
    joining.erase(peer);
    --busy;
    changed.notify_all();
  }
};

namespace {

using AskedPtr = std::shared_ptr<Asked>;

void join(const AskedPtr& asked, int peer, const StorePtr& store) {
  try {
    if (const Mailbox::Owner owner = asked->whose(); owner.join) owner.join(peer, *store);
  } catch (const std::exception& error) {  // who asked is told by its own call
    VLOG(1) << "ProcessGroupHCCL: joining rank " << peer << ": " << error.what();
  }
  asked->leave(peer);
}

class Listener {
 public:
  explicit Listener(StorePtr store) : store_(std::move(store)) {}

  void add(AskedPtr asked) {
    std::lock_guard<std::mutex> lock(mutex_);
    asked_.push_back(std::move(asked));
    news_ = true;
    changed_.notify_all();
  }
  // True if it was the last one: then the thread ends.
  bool remove(const AskedPtr& asked) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::erase(asked_, asked);
    end_ = asked_.empty();
    changed_.notify_all();
    return end_;
  }
  void end() {
    std::lock_guard<std::mutex> lock(mutex_);
    end_ = true;
    changed_.notify_all();
  }
  void wait_for_end() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, kStuck, [&] { return ended_; });
  }

  void run() {
    milliseconds pause = kSoon;
    std::unique_lock<std::mutex> lock(mutex_);
    while (!end_) {
      if (changed_.wait_for(lock, pause, [&] { return end_ || news_; })) pause = kSoon;
      if (end_) break;
      news_ = false;
      std::vector<AskedPtr> all = asked_;
      lock.unlock();
      bool something = false;
      for (const AskedPtr& asked : all) something |= look(asked);
      all.clear();
      pause = something ? kSoon : std::min(pause * 5 / 4, kLate);
      lock.lock();
    }
    StorePtr store = std::move(store_);
    lock.unlock();
    store.reset();
    lock.lock();
    ended_ = true;
    changed_.notify_all();
  }

 private:
  // Whether this rank was asked since the last look.
  bool look(const AskedPtr& asked) {
    if (lost_) return false;
    bool something = false;
    try {
      StorePtr store = store_;
      if (!asked->prefix.empty()) store = c10::make_intrusive<c10d::PrefixStore>(asked->prefix, store_);
      const int64_t count = store->add(count_of(asked->key, asked->rank), 0);
      something = count != asked->seen;
      if (something || asked->waiting) {
        asked->seen = count;
        asked->waiting = true;  // until all who asked are answered
        const Mailbox::Owner owner = asked->whose();
        if (!owner.able || !owner.able()) return something;
        for (int peer = 0; peer < asked->size; ++peer)
          if (peer != asked->rank && store->check({flag_of(asked->key, asked->rank, peer)})) start(asked, peer, store);
        asked->waiting = false;
      }
    } catch (const c10::DistNetworkError&) {  // the store is gone, and with it whoever would ask
      lost_ = true;
    } catch (const std::exception& error) {  // the next look may go better
      VLOG(1) << "ProcessGroupHCCL: a look at what other ranks ask: " << error.what();
    }
    return something;
  }

  // Throws where the system has no thread: who asked is looked for again.
  static void start(const AskedPtr& asked, int peer, const StorePtr& store) {
    {
      std::lock_guard<std::mutex> lock(asked->mutex);
      if (!asked->open || !asked->joining.insert(peer).second) return;
      ++asked->busy;
    }
    try {
      std::thread(join, asked, peer, store).detach();
    } catch (...) {
      asked->leave(peer);
      throw;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  StorePtr store_;     // the thread's, once it runs
  bool lost_ = false;  // the thread's
  std::vector<AskedPtr> asked_;
  bool news_ = false, end_ = false, ended_ = false;
};

struct Listeners {
  std::mutex mutex;
  std::map<c10d::Store*, std::shared_ptr<Listener>> by_store;
};

Listeners& listeners() {
  static auto* const the = new Listeners;  // leaked: a thread may be in a look when the process ends
  return *the;
}

}  // namespace

void ask(c10d::Store& store, const std::string& key, int from, int to) {
  store.set(flag_of(key, to, from), std::vector<uint8_t>{1});
  store.add(count_of(key, to), 1);
}

void Mailbox::open(const StorePtr& store, std::string key, int rank, int size, Owner owner) {
  close();
  std::string prefix;
  const StorePtr shared = Place::below(store, prefix);
  asked_ = std::make_shared<Asked>(std::move(key), rank, size, prefix, std::move(owner));
  asked_->shared = shared.get();
  Listeners& all = listeners();
  std::lock_guard<std::mutex> lock(all.mutex);
  std::shared_ptr<Listener>& listener = all.by_store[shared.get()];
  if (!listener) {
    listener = std::make_shared<Listener>(another_connection(shared));
    std::thread([listener] { listener->run(); }).detach();
  }
  listener->add(asked_);
}

void Mailbox::stop() noexcept {
  if (!asked_ || asked_->process != getpid()) return;
  {
    std::lock_guard<std::mutex> lock(asked_->mutex);
    if (!std::exchange(asked_->open, false)) return;
  }
  Listeners& all = listeners();
  std::shared_ptr<Listener> listener;
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.by_store.find(asked_->shared);
    if (found == all.by_store.end() || !found->second->remove(asked_)) return;
    listener = found->second;
    all.by_store.erase(found);
  }
  listener->wait_for_end();
}

void Mailbox::close() noexcept {
  stop();
  if (!asked_ || asked_->process != getpid()) return;
  std::unique_lock<std::mutex> lock(asked_->mutex);
  const Owner let_go = std::exchange(asked_->owner, {});
  asked_->changed.wait_for(lock, kStuck, [&] { return !asked_->busy; });
  lock.unlock();
}

void mailboxes_are_open() { TORCH_CHECK(!all_closed, "ProcessGroupHCCL: the process ends"); }

void close_all_mailboxes() noexcept {
  all_closed = true;
  std::map<c10d::Store*, std::shared_ptr<Listener>> all;
  {
    std::lock_guard<std::mutex> lock(listeners().mutex);
    all.swap(listeners().by_store);
  }
  for (const auto& [store, listener] : all) listener->end();
  for (const auto& [store, listener] : all) listener->wait_for_end();
}

}  // namespace npu::distributed
