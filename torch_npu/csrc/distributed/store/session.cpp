#include "csrc/distributed/store/session.h"

#include <utility>

namespace npu::distributed::store {

constexpr size_t kAnswersAtOnce = 64 << 10;  // bytes that are gathered before they are sent
constexpr size_t kSmallInbox = 4 << 10;

void Session::receive(std::string_view bytes) {
  if (!inbox_.empty()) {
    inbox_.append(bytes);
    kept_.resize(static_cast<int64_t>(inbox_.capacity()));
    bytes = inbox_;
  }
  while (!bytes.empty() && wire_.ready()) {
    if (static_cast<Query>(bytes[0]) != Query::kCancelWait && waits())
      throw ProtocolError("a request of a client that waits for the answer to another");
    const size_t size = end_.find(bytes);
    if (size == 0) break;
    answer(bytes.substr(0, size));
    bytes.remove_prefix(size);
    end_ = {};
    if (out_.size() >= kAnswersAtOnce) flush();
  }
  flush();
  if (bytes.size() > kLargestRequest) throw ProtocolError("a request of more than " + std::to_string(bytes.size()));
  keep(bytes);
}

// `rest` may lie in the inbox. An inbox that has been large is given back.
void Session::keep(std::string_view rest) {
  const bool inside = !inbox_.empty();
  if (inside && rest.size() == inbox_.size()) return;
  if (inbox_.capacity() > kSmallInbox && rest.size() < inbox_.capacity() / 4) {
    std::string small(rest);
    inbox_.swap(small);
  } else if (inside) {
    inbox_.erase(0, inbox_.size() - rest.size());
  } else {
    inbox_.assign(rest);
  }
  kept_.resize(inbox_.empty() ? 0 : static_cast<int64_t>(inbox_.capacity()));
}

void Session::flush() {
  if (out_.empty()) return;
  wire_.send(out_);
  out_.clear();
}

// A whole request.
void Session::answer(std::string_view request) {
  Reader reader(request);
  const auto query = reader.value<Query>();
  switch (query) {
    case Query::kValidate:
      if (reader.value<uint32_t>() != kMagic) throw ProtocolError("a greeting that is not a store's");
      return;
    case Query::kPing:
      return put(out_, reader.value<uint32_t>());
    case Query::kNumKeys:
      return put<int64_t>(out_, table_.size());
    case Query::kListKeys: {
      const auto keys = table_.keys();
      put<int64_t>(out_, keys.size());
      for (const auto& key : keys) put_text(out_, key);
      if (out_.size() > kLargestRequest) throw ProtocolError("a list of more than " + std::to_string(kLargestRequest));
      return;
    }
    case Query::kCancelWait:
      flush();
      if (auto wait = end_wait()) table_.cancel(wait);
      return put(out_, Answer::kCanceled);
    case Query::kCheck:
    case Query::kWait:
    case Query::kMultiGet:
    case Query::kMultiSet:
      return answer_keys(query, reader);
    default:
      return answer_key(query, reader);
  }
}

// Requests about one key.
void Session::answer_key(Query query, Reader& reader) {
  const std::string_view key = reader.text();
  switch (query) {
    case Query::kSet:
      return table_.set(key, reader.text());
    case Query::kCompareSet: {
      const std::string_view expected = reader.text();
      return put_text(out_, table_.compare_set(key, expected, reader.text()));
    }
    case Query::kGet:
      return put_text(out_, table_.get(key));
    case Query::kAdd:
      return put(out_, table_.add(key, reader.value<int64_t>()));
    case Query::kDelete:
      return put(out_, table_.erase(key));
    case Query::kAppend:
      return table_.append(key, reader.text());
    case Query::kQueuePush:
      return table_.push(key, reader.text());
    case Query::kQueuePop: {
      auto [length, first] = table_.pop(key);
      put(out_, length);
      if (length) put_text(out_, first);
      return;
    }
    case Query::kQueueLength:
      return put(out_, table_.length(key));
    default: {  // what waits: kBarrier, kWaitGet, kWaitPop
      auto wait = std::make_shared<Wait>(table_.budget());
      wait->keys.emplace_back(key);
      wait->takes = query == Query::kWaitPop;
      wait->arrives = query == Query::kBarrier;
      if (wait->arrives) wait->world = reader.value<int64_t>();
      return await(query, std::move(wait));
    }
  }
}

void Session::answer_keys(Query query, Reader& reader) {
  const auto n = reader.value<uint64_t>();
  std::vector<std::pair<std::string_view, std::string_view>> items(0);
  for (uint64_t i = 0; i < n; ++i) {
    const std::string_view key = reader.text();
    items.emplace_back(key, query == Query::kMultiSet ? reader.text() : std::string_view());
  }
  if (query == Query::kWait) {
    auto wait = std::make_shared<Wait>(table_.budget());
    for (const auto& [key, value] : items) wait->keys.emplace_back(key);
    await(query, std::move(wait));
  } else if (query == Query::kCheck) {
    bool all = true;
    for (const auto& [key, value] : items) all = all && table_.has(key);
    put<uint8_t>(out_, all ? 0 : 1);
  } else {
    for (const auto& [key, value] : items) {
      if (query == Query::kMultiSet) {
        table_.set(key, value);
      } else {
        put_text(out_, table_.get(key));
        if (out_.size() > kLargestRequest)
          throw ProtocolError("a request for more than " + std::to_string(out_.size()));
      }
    }
  }
}

// The answer comes now or, from the thread that brings what is missing, later. Answers before it must be gone by then.
void Session::await(Query query, WaitPtr wait) {
  flush();
  wait->done = [self = weak_from_this(), query, wait = wait.get()](std::string_view taken) {
    const auto session = self.lock();
    return session && session->arrived(query, wait, taken);
  };
  {
    std::lock_guard lock(lock_);
    wait_ = wait;
  }
  std::string taken;
  if (table_.wait(wait, taken)) {
    end_wait();
    put_awaited(out_, query, *wait, taken);
  }
}

void Session::put_awaited(std::string& out, Query query, const Wait& wait, std::string_view taken) {
  put(out, Answer::kDone);
  if (query == Query::kWaitGet) put_text(out, table_.get(wait.keys[0]));
  if (query == Query::kWaitPop) put_text(out, taken);
}

// By another client's thread, which must not suffer from what goes wrong here. Whoever has the wait answers it: it is canceled or
// done, not both. The lock is held until the answer is sent, so that a cancellation's comes after it.
bool Session::arrived(Query query, const Wait* wait, std::string_view taken) {
  std::lock_guard lock(lock_);
  if (wait_.get() != wait) return false;
  const WaitPtr mine = std::exchange(wait_, nullptr);
  try {
    std::string out;
    put_awaited(out, query, *mine, taken);
    wire_.send(out);
  } catch (const std::exception&) {
    wire_.lose();
  }
  return true;
}

bool Session::waits() {
  std::lock_guard lock(lock_);
  return wait_ != nullptr;
}

WaitPtr Session::end_wait() noexcept {
  std::lock_guard lock(lock_);
  return std::exchange(wait_, nullptr);
}

void Session::gone() noexcept {
  if (auto wait = end_wait()) table_.cancel(wait);
}

}  // namespace npu::distributed::store
