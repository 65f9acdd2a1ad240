// What a row of ops/ge.yaml sees of one node while it runs: its inputs by their place in the row, its attributes, and a place for its
// outputs. What it is not: the node's order or the life of values (run.h).
#pragma once

#include <initializer_list>

#include "softnpu/graph_engine/call.h"
#include "softnpu/graph_engine/model.h"
#include "softnpu/graph_engine/views.h"

namespace softnpu::graph {

// A node's inputs by its row's parameters: positions in Node::inputs.
using Bound = std::vector<std::vector<int>>;

class Step {
 public:
  Step(Lane& lane, const Node& node, const Bound& bound, std::vector<Value>& inputs)
      : lane(lane), node_(node), bound_(bound), inputs_(inputs) {}

  Lane& lane;

  // The input that the row names there; one that is left out is a value without storage.
  const Value& in(size_t place) const;
  std::vector<Value> list(size_t place) const;

  int64_t integer(const char* name, std::optional<int64_t> fallback = {}) const;
  double real(const char* name, std::optional<double> fallback = {}) const;
  bool flag(const char* name, std::optional<bool> fallback = {}) const;
  std::string text(const char* name, std::optional<std::string> fallback = {}) const;
  Dims integers(const char* name, std::optional<Dims> fallback = {}) const;
  std::vector<bool> flags(const char* name) const;  // empty where the node has none
  aclDataType type(const char* name, std::optional<int64_t> fallback = {}) const;
  // Refuses an attribute that the node has with another value than the only one that a row computes.
  void need(const char* name, bool value) const;
  void need(const char* name, int64_t value) const;
  // Refuses an input that a row does not compute with.
  void need_none(size_t place, const char* name) const;
  // Refuses inputs of more than one type; lists count with all members, what is left out does not.
  void need_same(std::initializer_list<size_t> places) const;
  // Refuses an input of another type than int32 and int64, or than bool.
  void need_index(size_t place, const char* name) const;
  void need_flags(size_t place, const char* name) const;
  // The same number. Refuses another than the node declares outputs, before so many are made.
  int64_t parts(int64_t count) const;

  // The next outputs: new memory, or a value that there is (a copy if its elements do not follow each other).
  Value make(const Spec& spec);
  Value make(const Value& value);
  std::vector<Value> make(const std::vector<Value>& values);
  // What a row that writes an input in place gives: the input itself, if it is a client's or nobody else's, else a copy.
  Value make_in_place(size_t place);
  std::vector<Value>& outputs() { return outputs_; }

  // Memory of this node's own.
  Value temporary(const Spec& spec);
  Value dense(const Value& value);
  Value copied(const Value& value);
  // The numbers that a tensor of int32 or int64 holds. Waits for the stream if they are computed there.
  Dims ints(const Value& value);
  // Integers that the host knows without waiting.
  bool known(const Value& value) const {
    return value.storage->host && (value.type == ACL_INT64 || value.type == ACL_INT32);
  }
  int64_t index(const Value& value);  // of a tensor of one integer
  Number number(const Value& value);  // of a tensor of one number
  // A tensor of numbers known here.
  Value numbers_of(const Spec& spec, const Dims& numbers);
  // After the device wrote it.
  void wrote(const Value& value) { value.storage->host.reset(); }

  template <typename F, typename... A>
  void call(const F& function, const A&... arguments) {
    graph::call(lane, function, arguments...);
  }

 private:
  template <typename T>
  std::vector<T> numbers(const Value& value);

  const Node& node_;
  const Bound& bound_;
  std::vector<Value>& inputs_;
  std::vector<Value> outputs_;
};

}  // namespace softnpu::graph
