// See compiled.h.
#include "softnpu/graph_engine/compiled.h"

#include <cstring>
#include <new>
#include <set>

#include "acl/api.h"

namespace softnpu::graph {
namespace {

bool plain(ge::Format format) {
  switch (static_cast<int>(format)) {
    case ACL_FORMAT_ND:
    case ACL_FORMAT_NCHW:
    case ACL_FORMAT_NHWC:
    case ACL_FORMAT_NCDHW:
    case ACL_FORMAT_NCL:
      return true;
    default:
      return false;
  }
}

// A client's memory, as long as the client keeps it.
Value value_of(const ge::Tensor& tensor, size_t index) {
  const ge::TensorImpl& given = tensor.impl();
  const Spec spec{static_cast<aclDataType>(given.desc.type), given.desc.dims};
  const auto fail = [&](const std::string& what) { throw Error("input " + std::to_string(index) + ": " + what); };
  if (!plain(given.desc.format))
    fail("format " + std::to_string(static_cast<int>(given.desc.format)) +
         " is not supported: a graph of the software NPU takes tensors as they are (ND)");
  const int64_t elements = elements_of(spec.dims), size = bytes_of(spec.type);
  int64_t whole = 0;
  if (!size || elements < 0 || __builtin_mul_overflow(elements, size, &whole))
    fail("a tensor of " + name_of(spec.type) + " with shape " + text_of(spec.dims));
  const size_t bytes = static_cast<size_t>(whole);
  if (bytes && !given.data) fail("no data");
  auto storage = std::make_shared<Storage>();
  if (given.desc.placement == ge::kPlacementHost) {
    storage->host = bytes ? std::make_shared<std::string>(reinterpret_cast<const char*>(given.data.get()), bytes)
                          : std::make_shared<std::string>();
  } else {
    storage->device = std::make_shared<Block>(given.data.get(), bytes);
    storage->device->clients = true;
  }
  return dense_value(spec, std::move(storage));
}

std::vector<Value> values_of(const std::vector<ge::Tensor>& tensors, const Program& program) {
  if (tensors.size() < program.inputs())
    throw Error("the graph takes " + std::to_string(program.inputs()) + " inputs, " + std::to_string(tensors.size()) +
                " are given");
  std::vector<Value> values;
  for (size_t i = 0; i < tensors.size(); i++) values.push_back(value_of(tensors[i], i));
  return values;
}

int64_t bytes_of(const Value& value) { return value.elements() * graph::bytes_of(value.type); }

void copy(Lane& lane, void* to, const Value& from) {
  const char* address = static_cast<const char*>(lane.address(from)) + from.offset * graph::bytes_of(from.type);
  const size_t bytes = static_cast<size_t>(bytes_of(from));
  if (bytes)
    check(aclrtMemcpyAsync(to, bytes, address, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, lane.stream()), "aclrtMemcpyAsync");
}

// A result that may be given away: memory of the run's own, from its beginning, that is no result yet.
Value own(Lane& lane, const Value& value, std::set<const Block*>& given) {
  const Storage& storage = *value.storage;
  const bool mine = storage.device && !storage.device->clients && !storage.constant && value.offset == 0;
  if (mine && given.insert(storage.device.get()).second) return value;
  auto made = std::make_shared<Storage>();
  made->device = lane.allocate(static_cast<size_t>(bytes_of(value)));
  copy(lane, made->device->address, value);
  return dense_value({value.type, value.dims}, std::move(made));
}

void describe(ge::Tensor& tensor, const Value& value, ge::Placement placement) {
  ge::TensorDescImpl& desc = tensor.impl().desc;
  desc.dims = desc.origin_dims = value.dims;
  desc.type = static_cast<ge::DataType>(value.type);
  desc.format = desc.origin_format = static_cast<ge::Format>(ACL_FORMAT_ND);
  desc.placement = placement;
}

void give(ge::Tensor& tensor, const Value& value) {
  describe(tensor, value, ge::kPlacementDevice);
  auto block = value.storage->device;  // lives in what frees the data
  auto* const address = static_cast<uint8_t*>(block->address);
  tensor.impl().data = ge::TensorData(address, [block](uint8_t*) {});
  tensor.impl().bytes = static_cast<size_t>(bytes_of(value));
}

// What gives a result, for messages.
std::string source_of(const Program& program, size_t result) {
  std::vector<const Source*> sources;
  for (const Source& source : program.result()->inputs)
    if (source.node >= 0) sources.push_back(&source);
  return result < sources.size() ? program.model().nodes[static_cast<size_t>(sources[result]->node)].title() : "result";
}

// A result for a client on the host. From the device straight into the client's memory: a result may be as large as memory allows.
void fetch(Lane& lane, const Value& result, ge::Tensor& tensor, const std::string& source) {
  const size_t bytes = static_cast<size_t>(bytes_of(result));
  const auto offset = result.offset * graph::bytes_of(result.type);
  auto* const data = new (std::nothrow) uint8_t[bytes ? bytes : 1];
  if (!data) throw Error(source + ": the host has no memory for a result of shape " + text_of(result.dims));
  tensor.impl().data = ge::TensorData(data, [](uint8_t* data) { delete[] data; });
  tensor.impl().bytes = bytes;
  describe(tensor, result, ge::kPlacementHost);
  const Storage& storage = *result.storage;
  if (storage.host) {
    if (bytes) std::memcpy(data, storage.host->data() + offset, bytes);
    return;
  }
  check(aclrtSynchronizeStream(lane.stream()), "aclrtSynchronizeStream");
  if (bytes)
    check(aclrtMemcpy(data, bytes, static_cast<const char*>(storage.device->address) + offset, bytes,
                      ACL_MEMCPY_DEVICE_TO_HOST),
          "aclrtMemcpy");
}

}  // namespace

void Compiled::compile() {
  const std::lock_guard lock(mutex_);
  if (!program_) program_ = std::make_unique<Program>(model_);
}

void Compiled::run(aclrtStream stream, std::shared_ptr<ge::Allocator> allocator, const std::vector<ge::Tensor>& inputs,
                   std::vector<ge::Tensor>& outputs) {
  compile();
  const std::lock_guard lock(mutex_);
  Lane lane(stream, std::move(allocator), keeper_);
  const std::vector<Value> given = values_of(inputs, *program_);
  std::vector<Value> results = graph::run(*program_, lane, given);
  if (outputs.empty()) outputs.resize(results.size());
  if (outputs.size() != results.size())
    throw Error("the graph gives " + std::to_string(results.size()) + " results, and " +
                std::to_string(outputs.size()) + " are wanted");
  const auto assigned = [&](size_t i) { return outputs[i].impl().data != nullptr; };
  std::set<const Block*> taken;
  // Those that leave inputs as they are first: a result may be written into an input that another result is.
  for (size_t i = 0; i < results.size(); i++) {
    if (!assigned(i)) {
      results[i] = own(lane, results[i], taken);
      give(outputs[i], results[i]);
    } else if (results[i].storage->device && results[i].storage->device->clients &&
               results[i].storage->device->address != outputs[i].impl().data.get()) {
      results[i] = own(lane, results[i], taken);
    }
  }
  for (size_t i = 0; i < results.size(); i++) {
    void* const to = outputs[i].impl().data.get();
    const Value& result = results[i];
    if (result.storage->device && result.storage->device->address == to && result.offset == 0) continue;
    int64_t room = 0;
    if (__builtin_mul_overflow(elements_of(outputs[i].impl().desc.dims),
                               graph::bytes_of(static_cast<aclDataType>(outputs[i].impl().desc.type)), &room) ||
        room != bytes_of(result))
      throw Error("result " + std::to_string(i) + " has shape " + text_of(result.dims) + " of " + name_of(result.type) +
                  ", and the memory for it shape " + text_of(outputs[i].impl().desc.dims));
    copy(lane, to, result);
  }
}

void Compiled::run_here(aclrtStream stream, const std::vector<ge::Tensor>& inputs, std::vector<ge::Tensor>& outputs) {
  compile();
  const std::lock_guard lock(mutex_);
  Lane lane(stream, nullptr, keeper_);
  const std::vector<Value> given = values_of(inputs, *program_);
  const std::vector<Value> results = graph::run(*program_, lane, given);
  outputs.resize(results.size());
  for (size_t i = 0; i < results.size(); i++) fetch(lane, results[i], outputs[i], source_of(*program_, i));
  for (const Part& part : program_->parts()) {
    if (!part.varies || part.input < 0) continue;
    const size_t i = static_cast<size_t>(part.input);
    const std::string& written = lane.bytes(given[i]);
    if (!written.empty())
      std::memcpy(inputs[i].impl().data.get(), written.data(), static_cast<size_t>(bytes_of(given[i])));
  }
  check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
}

}  // namespace softnpu::graph
