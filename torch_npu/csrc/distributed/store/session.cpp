#include "csrc/distributed/store/session.h"

#include <utility>

namespace npu::distributed::store {

constexpr size_t kAnswersAtOnce = 64 << 10;  // bytes that are gathered before they are sent

void Session::receive(std::string_view bytes) {
  const bool pieces = !inbox_.empty();
  if (pieces) {
    inbox_.append(bytes);
    bytes = inbox_;
  }
  bool whole = true;  // more requests are there
  while (!bytes.empty() && whole && ready_()) {
    Reader reader(bytes);
    whole = answer(reader);
    if (whole) bytes = reader.rest();
    if (out_.size() >= kAnswersAtOnce) flush();
  }
  flush();
  if (bytes.size() > kLargestRequest) throw ProtocolError("a request of more than " + std::to_string(bytes.size()));
  if (pieces) {
    inbox_.erase(0, inbox_.size() - bytes.size());
  } else {
    inbox_.assign(bytes);
  }
}

void Session::flush() {
  if (out_.empty()) return;
  send_(out_);
  out_.clear();
}

bool Session::answer(Reader& reader) {
  Query query;
  if (!reader.value(query)) return false;
  switch (query) {
    case Query::kValidate: {
      uint32_t magic = 0;
      if (!reader.value(magic)) return false;
      if (magic != kMagic) throw ProtocolError("a greeting that is not a store's");
      return true;
    }
    case Query::kPing: {
      uint32_t nonce = 0;
      if (!reader.value(nonce)) return false;
      put(out_, nonce);
      return true;
    }
    case Query::kNumKeys:
      put<int64_t>(out_, table_.size());
      return true;
    case Query::kListKeys: {
      const auto keys = table_.keys();
      put<int64_t>(out_, keys.size());
      for (const auto& key : keys) put_text(out_, key);
      return true;
    }
    case Query::kCancelWait:
      flush();
      if (auto wait = end_wait()) table_.cancel(wait);
      put(out_, Answer::kCanceled);
      return true;
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
bool Session::answer_key(Query query, Reader& reader) {
  std::string_view key, value, desired;
  int64_t number = 0;
  if (!reader.key(key)) return false;
  switch (query) {
    case Query::kSet:
      if (!reader.text(value)) return false;
      table_.set(key, value);
      return true;
    case Query::kCompareSet:
      if (!reader.text(value) || !reader.text(desired)) return false;
      put_text(out_, table_.compare_set(key, value, desired));
      return true;
    case Query::kGet:
      put_text(out_, table_.get(key));
      return true;
    case Query::kAdd:
      if (!reader.value(number)) return false;
      put(out_, table_.add(key, number));
      return true;
    case Query::kDelete:
      put(out_, table_.erase(key));
      return true;
    case Query::kAppend:
      if (!reader.text(value)) return false;
      table_.append(key, value);
      return true;
    case Query::kQueuePush:
      if (!reader.text(value)) return false;
      table_.push(key, value);
      return true;
    case Query::kQueuePop: {
      auto [length, first] = table_.pop(key);
      put(out_, length);
      if (length) put_text(out_, first);
      return true;
    }
    case Query::kQueueLength:
      put(out_, table_.length(key));
      return true;
    case Query::kBarrier:
    case Query::kWaitGet:
    case Query::kWaitPop: {
      if (query == Query::kBarrier && !reader.value(number)) return false;
      auto wait = std::make_shared<Wait>();
      wait->keys.emplace_back(key);
      wait->takes = query == Query::kWaitPop;
      wait->arrives = query == Query::kBarrier;
      wait->world = number;
      await(query, std::move(wait));
      return true;
    }
    default:
      throw ProtocolError("request " + std::to_string(static_cast<int>(query)) + ", which does not exist");
  }
}

bool Session::answer_keys(Query query, Reader& reader) {
  uint64_t n = 0;
  if (!reader.count(n)) return false;
  std::vector<std::pair<std::string_view, std::string_view>> items(0);
  for (uint64_t i = 0; i < n; ++i) {
    std::string_view key, value;
    if (!reader.key(key) || (query == Query::kMultiSet && !reader.text(value))) return false;
    items.emplace_back(key, value);
  }
  if (query == Query::kWait) {
    auto wait = std::make_shared<Wait>();
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
  return true;
}

// The answer comes now or, from the thread that brings what is missing, later. Answers before it must be gone by then.
void Session::await(Query query, WaitPtr wait) {
  flush();
  wait->done = [self = weak_from_this(), query, wait = wait.get()](std::string taken) {
    auto session = self.lock();
    if (!session || !session->end_wait()) return;
    std::string out;
    put(out, Answer::kDone);
    if (query == Query::kWaitGet) put_text(out, session->table_.get(wait->keys[0]));
    if (query == Query::kWaitPop) put_text(out, taken);
    session->send_(out);
  };
  {
    std::lock_guard lock(lock_);
    wait_ = wait;
  }
  std::string taken;
  if (table_.wait(wait, taken)) {
    end_wait();
    put(out_, Answer::kDone);
    if (query == Query::kWaitGet) put_text(out_, table_.get(wait->keys[0]));
    if (query == Query::kWaitPop) put_text(out_, taken);
  }
}

// Whoever gets the wait here answers it: it is canceled or done, not both.
WaitPtr Session::end_wait() {
  std::lock_guard lock(lock_);
  return std::exchange(wait_, nullptr);
}

void Session::gone() {
  if (auto wait = end_wait()) table_.cancel(wait);
}

}  // namespace npu::distributed::store
