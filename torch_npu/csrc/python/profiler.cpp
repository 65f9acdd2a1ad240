// Ranges and marks that a program names (torch_npu.npu.mstx): libms_tools_ext's functions. Where a CANN has none of them they do nothing,
// as with CANN's own tools absent: naming a range never stops a program.
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "csrc/cann/mspti.h"
#include "csrc/python/profiler.h"

namespace npu::python {
namespace {

mstxDomainHandle_t domain_of(const std::string& name) {
  static auto* const mutex = new std::mutex();
  static auto* const made = new std::unordered_map<std::string, mstxDomainHandle_t>();
  const std::lock_guard<std::mutex> guard(*mutex);
  const auto found = made->find(name);
  if (found != made->end()) return found->second;
  return (*made)[name] = cann::mspti().mstxDomainCreateA(name.c_str());
}

bool is_default(const std::string& domain) { return domain == "default" || !cann::mspti().mstxDomainCreateA; }

aclrtStream raw_stream_of(const std::optional<uintptr_t>& stream) {
  return stream ? reinterpret_cast<aclrtStream>(*stream) : nullptr;
}

void mark(const std::string& message, const std::optional<uintptr_t>& stream, const std::string& domain) {
  const cann::Mspti& m = cann::mspti();
  if (!is_default(domain) && m.mstxDomainMarkA)
    m.mstxDomainMarkA(domain_of(domain), message.c_str(), raw_stream_of(stream));
  else if (m.mstxMarkA)
    m.mstxMarkA(message.c_str(), raw_stream_of(stream));
}

uint64_t start(const std::string& message, const std::optional<uintptr_t>& stream, const std::string& domain) {
  const cann::Mspti& m = cann::mspti();
  if (!is_default(domain) && m.mstxDomainRangeStartA)
    return m.mstxDomainRangeStartA(domain_of(domain), message.c_str(), raw_stream_of(stream));
  return m.mstxRangeStartA ? m.mstxRangeStartA(message.c_str(), raw_stream_of(stream)) : 0;
}

void end(uint64_t id, const std::string& domain) {
  const cann::Mspti& m = cann::mspti();
  if (!is_default(domain) && m.mstxDomainRangeEnd)
    m.mstxDomainRangeEnd(domain_of(domain), id);
  else if (m.mstxRangeEnd)
    m.mstxRangeEnd(id);
}

}  // namespace

void bind_profiler(py::module& module) {
  module.def("_mstx_mark", no_gil(&mark));
  module.def("_mstx_range_start", no_gil(&start));
  module.def("_mstx_range_end", no_gil(&end));
}

}  // namespace npu::python
