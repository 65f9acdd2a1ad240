// A value inside a graph: a view of storage, which lies on the device, on the host, or on both. Cheap to copy: copies share storage.
// What it is not: a tensor at the border (tensor.h), or who owns device memory (lane.h).
#pragma once

#include <memory>
#include <string>

#include "softnpu/graph_engine/types.h"

namespace softnpu::graph {

// Device memory. Its destructor gives it back: to the lane's memory, or to nobody where a client owns it.
struct Block {
  Block(void* address, size_t bytes) : address(address), bytes(bytes) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  virtual ~Block() = default;

  void* address;
  size_t bytes;
  bool clients = false;  // an input: a result must not be given away in it
  bool varies = false;   // a node of the graph writes it in place: what was read before has to be a copy
};

struct Storage {
  std::shared_ptr<Block> device;            // null: not there yet
  std::shared_ptr<const std::string> host;  // null: not known; what writes on the device drops it
  bool constant = false;                    // of the graph, not of a run
};

struct Value {
  aclDataType type = ACL_DT_UNDEFINED;
  Dims dims, strides;  // in elements
  int64_t offset = 0;
  std::shared_ptr<Storage> storage;  // null: left out
  bool variable = false;             // an input as it came: a node that writes it in place writes the client's memory

  explicit operator bool() const { return storage != nullptr; }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t elements() const { return elements_of(dims); }
  bool dense() const;  // elements follow each other as the shape says
};

// A number of a tensor: integers stay integers.
struct Number {
  bool whole;
  int64_t integer;
  double real;
};

// What a node's output is to be.
struct Spec {
  aclDataType type;
  Dims dims;
};

Dims strides_of(const Dims& dims);
Value dense_value(const Spec& spec, std::shared_ptr<Storage> storage);

}  // namespace softnpu::graph
