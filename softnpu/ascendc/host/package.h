// What the aclnn functions of a package that opp_build made do: the first looks at the operands, calls the tiling function and says how much
// workspace is wanted; the second puts the kernel on the stream. What it is not: the functions themselves, which are generated.
// A call belongs to one thread until its second function; the tiling's bytes go with the launch.
#pragma once

#include <dlfcn.h>
#include <stdlib.h>

#include <mutex>
#include <string>

#include "acl/acl.h"
#include "ascendc/launch.h"
#include "host.h"

// Not by aclnn/api.h: a package may have functions of the same names as CANN's, with other parameters.
extern "C" aclnnStatus aclnnInplaceCopyGetWorkspaceSize(aclTensor* selfRef, const aclTensor* src,
                                                        uint64_t* workspaceSize, aclOpExecutor** executor);
extern "C" aclnnStatus aclnnInplaceCopy(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                        aclrtStream stream);

namespace ascendc_host {

inline constexpr aclnnStatus kNullParameter = 161001, kBadParameter = 161002, kInnerError = 561000;
inline constexpr uint32_t kMostBlocks = 65535;
inline constexpr uint64_t kMostWorkspace = 1ull << 46;  // more is a difference that became negative
// Formats whose memory is not that of ND.
inline const std::set<int> kPrivateFormats{ge::FORMAT_NC1HWC0, ge::FORMAT_FRACTAL_Z, ge::FORMAT_FRACTAL_NZ,
                                           ge::FORMAT_NDC1HWC0, ge::FORMAT_FRACTAL_Z_3D};

// A kernel as it is compiled for one set of types. `enter` puts it on the stream.
struct Variant {
  std::vector<int> types;  // of inputs, then outputs; -1: any
  const char* library;     // below the package
  using Enter = uint32_t (*)(uint64_t key, uint32_t blocks, void* stream, void* const* arguments);
};
struct Operator {
  const char* type;
  std::vector<const char*> names;  // of inputs, then outputs
  std::vector<bool> as_it_lies;    // of inputs, then outputs: no view is packed (IgnoreContiguous)
  std::vector<bool> zeroed;        // outputs that begin as zeros
  bool launch_empty;               // also where no output has elements
  bool reads_tiling;               // its kernel begins with GET_TILING_DATA
  std::vector<Variant> variants;
};

// The folder of the package: three above the library that this is in. Looked up when it is loaded: its path may be relative to a folder that
// the program leaves.
inline std::string find_package_folder() {
  Dl_info here{};
  dladdr(reinterpret_cast<const void*>(&find_package_folder), &here);
  const std::unique_ptr<char, decltype(&free)> real(here.dli_fname ? realpath(here.dli_fname, nullptr) : nullptr, free);
  std::string path = real ? real.get() : "";
  for (int up = 0; up < 3; ++up) path.erase(std::min(path.find_last_of('/'), path.size()));
  return path;
}
inline const std::string package_folder = find_package_folder();

inline Variant::Enter entry(const Variant& v, std::string& error) {
  static std::mutex mutex;
  static std::map<std::string, Variant::Enter> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(v.library); found != known.end()) return found->second;
  const std::string path = package_folder + "/" + v.library;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto* enter = library ? reinterpret_cast<Variant::Enter>(dlsym(library, "ascendc_opp_enter")) : nullptr;
  if (enter == nullptr) {
    const char* why = dlerror();
    error = "the kernel's library cannot be loaded: " + std::string(why ? why : path);
    return nullptr;
  }
  return known[v.library] = enter;
}

class Call {
 public:
  explicit Call(const Operator& op) : op_(op) { context_.name = context_.attrs.op = op.type; }

  void input(const aclTensor* t, bool optional) { operand(t, optional, true); }
  void output(const aclTensor* t, bool optional) { operand(t, optional, false); }
  // An output that is the input at `place`: one memory, which the kernel is given twice.
  void same(size_t place) {
    operands_.push_back(operands_[place]);
    operands_[place].is_written = true;
    operands_.back().same_as = static_cast<int>(place);
    const auto& tensor = context_.inputs[place];
    context_.output_names.push_back(op_.names[place]);
    context_.outputs.push_back(tensor ? std::make_unique<gert::Tensor>(*tensor) : nullptr);
  }
  void attr(int64_t v) { context_.attrs.Put(v); }
  void attr(bool v) { context_.attrs.Put(v); }
  void attr(double v) { context_.attrs.Put(static_cast<float>(v)); }
  void attr(const char* v) { context_.attrs.PutText(v); }
  void attr(const aclIntArray* v) { list<int64_t>(v, 0); }
  void attr(const aclFloatArray* v) { list<float>(v, 1); }
  void attr(const aclBoolArray* v) { list<bool>(v, 2); }
  // What a function of an earlier version is not given (Version): the attribute's default.
  void absent_attr(size_t i) { makers().at(op_.type)()->attrs[i]->absent(context_.attrs); }

  aclnnStatus plan(uint64_t* bytes, aclOpExecutor** executor) {
    if (bytes == nullptr || executor == nullptr) return fail(kNullParameter, "workspaceSize and executor are wanted");
    if (status_) return fail(status_, text_);
    for (const Variant& v : op_.variants)
      if (fits(v)) variant_ = &v;
    if (variant_ == nullptr) return fail(kBadParameter, "the kernel is not defined for " + types());
    // With nothing to write there is no launch, as in the vendor's functions, unless LaunchWithZeroEleOutputTensors asks for one.
    if (!op_.launch_empty && writes_nothing()) {
      *bytes = 0;
      *executor = reinterpret_cast<aclOpExecutor*>(this);
      return 0;
    }
    std::string error;
    if ((enter_ = entry(*variant_, error)) == nullptr) return fail(kInnerError, error);
    const auto made = makers().at(op_.type)();
    for (const auto& a : made->attrs) context_.attrs.names.push_back(a->name);
    const auto& apart = tilings();
    const auto registered = apart.find(op_.type);
    const auto& tiling = made->core.tiling ? made->core.tiling : registered->second;
    context_.parsed = made->core.parsed || parsed().count(op_.type);
    if (const uint32_t code = tiling(&context_); code != ge::GRAPH_SUCCESS)
      return fail(kInnerError, "its tiling function returned " + std::to_string(code));
    if (op_.reads_tiling && context_.GetRawTilingData()->GetDataSize() == 0)
      return fail(kInnerError, "its tiling function saved no tiling data: SetDataSize is missing");
    if (context_.GetBlockDim() == 0) return fail(kInnerError, "its tiling function set no block dim");
    if (context_.GetBlockDim() > kMostBlocks)
      return fail(kInnerError, "its tiling function set a block dim of " + std::to_string(context_.GetBlockDim()) +
                                   ", and the most are " + std::to_string(kMostBlocks));
    for (size_t i = 0; i < context_.GetWorkspaceNum(); ++i) {
      const size_t asked = context_.GetWorkspaceSizes(i + 1)[i];
      if (asked > kMostWorkspace - own_)
        return fail(kInnerError, "its tiling function asks for " + std::to_string(asked) + " bytes of workspace");
      own_ += (asked + 511) / 512 * 512;
    }
    total_ = own_ + (context_.GetRawTilingData()->GetDataSize() + 511) / 512 * 512 + 512;
    for (size_t i = 0; i < operands_.size(); ++i) {
      Operand& o = operands_[i];
      if (o.tensor == nullptr || o.contiguous || o.same_as >= 0) continue;
      if (o.is_written && shares_elements(o))
        return fail(kBadParameter, std::string(op_.names[i]) +
                                       " is written, and several of its elements are one place of the memory (as "
                                       "expand makes them): clone it");
      o.copy = total_;
      total_ += (o.bytes + 511) / 512 * 512;
    }
    *bytes = total_;
    *executor = reinterpret_cast<aclOpExecutor*>(this);
    return 0;
  }

  aclnnStatus run(void* workspace, uint64_t bytes, aclrtStream stream) {
    if (enter_ == nullptr) return 0;
    if (bytes < total_ || workspace == nullptr)
      return fail(kBadParameter,
                  "the workspace has " + std::to_string(bytes) + " of " + std::to_string(total_) + " bytes");
    auto* base = static_cast<uint8_t*>(workspace);
    std::vector<void*> arguments;
    for (size_t i = 0; i < operands_.size(); ++i) {
      Operand& o = operands_[i];
      if (o.same_as >= 0) {
        arguments.push_back(arguments[static_cast<size_t>(o.same_as)]);
        continue;
      }
      arguments.push_back(o.tensor == nullptr ? nullptr : o.contiguous ? o.data : base + o.copy);
      if (o.tensor == nullptr || (o.contiguous && !o.zeroed)) continue;
      if (o.zeroed) {
        if (o.bytes == 0) continue;
        if (const aclError e = aclrtMemsetAsync(arguments.back(), o.bytes, 0, o.bytes, stream))
          return static_cast<aclnnStatus>(e);
      } else if (const aclnnStatus e = move(o, base + o.copy, true, stream)) {
        return e;
      }
    }
    const gert::TilingData& tiling = *context_.GetRawTilingData();
    const auto* from = static_cast<const uint8_t*>(tiling.GetData());
    const auto put = [bytes = std::vector<uint8_t>(from, from + tiling.GetDataSize()), to = base + own_] {
      memcpy(to, bytes.data(), bytes.size());
    };
    if (const uint32_t e = AscendC::detail::launch_function(op_.type, stream, put)) return static_cast<aclnnStatus>(e);
    arguments.push_back(base);
    arguments.push_back(base + own_);
    if (const uint32_t e = enter_(context_.GetTilingKey(), context_.GetBlockDim(), stream, arguments.data()))
      return static_cast<aclnnStatus>(e);
    for (Operand& o : operands_)
      if (o.tensor && !o.contiguous && o.is_written && o.same_as < 0)
        if (const aclnnStatus e = move(o, base + o.copy, false, stream)) return e;
    return 0;
  }

 private:
  struct Operand {
    const aclTensor* tensor;
    std::vector<int64_t> sizes, strides;
    aclDataType type;
    uint8_t* storage;  // where the view's storage begins
    int64_t offset;
    uint8_t* data;
    uint64_t bytes, copy;
    bool contiguous, is_written, zeroed;
    int same_as;  // the place of the input that this output is; -1: it is none
  };

  void operand(const aclTensor* t, bool optional, bool is_input) {
    const size_t place = operands_.size();
    const char* name = op_.names[place];
    operands_.push_back({t,
                         {},
                         {},
                         ACL_DT_UNDEFINED,
                         nullptr,
                         0,
                         nullptr,
                         0,
                         0,
                         true,
                         !is_input,
                         !is_input && op_.zeroed[place - inputs_],
                         -1});
    inputs_ += is_input;
    auto& list = is_input ? context_.inputs : context_.outputs;
    (is_input ? context_.input_names : context_.output_names).push_back(name);
    list.emplace_back();
    if (t == nullptr) {
      if (!optional && status_ == 0) status_ = kNullParameter, text_ = std::string(name) + " is wanted";
      return;
    }
    Operand& o = operands_.back();
    int64_t *sizes = nullptr, *strides = nullptr;
    uint64_t n = 0;
    void* storage = nullptr;
    aclFormat format = ACL_FORMAT_ND;
    if (aclGetViewShape(t, &sizes, &n) || aclGetViewStrides(t, &strides, &n) || aclGetDataType(t, &o.type) ||
        aclGetRawTensorAddr(t, &storage) || aclGetViewOffset(t, &o.offset) || aclGetFormat(t, &format)) {
      status_ = kBadParameter, text_ = std::string(name) + " is no tensor";
      return;
    }
    gert::Shape shape;
    int64_t count = 1;
    for (uint64_t d = n; d-- > 0; count *= sizes[d])
      o.contiguous = o.contiguous && (sizes[d] == 1 || strides[d] == count);
    for (uint64_t d = 0; d < n; ++d) shape.AppendDim(sizes[d]);
    o.contiguous = o.contiguous || count == 0;
    if (!o.contiguous && op_.as_it_lies[place] && status_ == 0)
      status_ = kBadParameter, text_ = std::string(name) +
                                       " is not contiguous, and the kernel asks for its memory as it "
                                       "lies (IgnoreContiguous): give a contiguous tensor";
    if (kPrivateFormats.count(format) && status_ == 0)
      status_ = kBadParameter, text_ = std::string(name) + " has the format " +
                                       ge::TypeUtils::FormatToSerialString(static_cast<ge::Format>(format)) +
                                       ", and kernels are given ND: cast it (npu_format_cast)";
    o.sizes.assign(sizes, sizes + n);
    o.strides.assign(strides, strides + n);
    delete[] sizes;
    delete[] strides;
    const auto type = static_cast<ge::DataType>(o.type);
    const int64_t each = std::max(ge::GetSizeByDataType(type), 0);
    o.bytes = static_cast<uint64_t>(count * each);
    o.storage = static_cast<uint8_t*>(storage);
    o.data = o.storage + o.offset * each;
    list.back() = std::make_unique<gert::Tensor>(shape, type, static_cast<ge::Format>(format));
    const auto asked = depended().find(op_.type);
    if (is_input && asked != depended().end() && asked->second.count(place)) list.back()->values_of = name;
  }
  bool writes_nothing() const {
    return std::all_of(operands_.begin() + static_cast<std::ptrdiff_t>(inputs_), operands_.end(),
                       [](const Operand& o) { return o.tensor == nullptr || o.bytes == 0; });
  }
  // Whether elements of the view have one place in memory. Strides that nest are looked at alone; of others each element is.
  static bool shares_elements(const Operand& o) {
    std::vector<std::pair<int64_t, int64_t>> dims;  // strides without signs, sizes
    for (size_t d = 0; d < o.sizes.size(); ++d)
      if (o.sizes[d] > 1) dims.emplace_back(std::abs(o.strides[d]), o.sizes[d]);
    std::sort(dims.begin(), dims.end());
    int64_t reach = 0;
    bool nested = true;
    for (const auto& [stride, size] : dims) {
      if (stride == 0) return true;
      nested = nested && stride > reach;
      reach += (size - 1) * stride;
    }
    if (nested) return false;
    std::vector<bool> seen(static_cast<size_t>(reach) + 1);
    std::vector<int64_t> at(dims.size(), 0);
    for (int64_t place = 0;;) {
      if (seen[static_cast<size_t>(place)]) return true;
      seen[static_cast<size_t>(place)] = true;
      size_t d = 0;
      for (; d < dims.size(); ++d) {
        place += dims[d].first;
        if (++at[d] < dims[d].second) break;
        place -= dims[d].first * dims[d].second;
        at[d] = 0;
      }
      if (d == dims.size()) return false;
    }
  }
  // Between a view of any strides and a row of its elements in the workspace.
  aclnnStatus move(const Operand& o, uint8_t* row, bool in, aclrtStream stream) {
    std::vector<int64_t> plain(o.sizes.size(), 1);
    for (size_t d = plain.size(); d-- > 1;) plain[d - 1] = plain[d] * o.sizes[d];
    const int64_t n =
        static_cast<int64_t>(o.bytes) / std::max(ge::GetSizeByDataType(static_cast<ge::DataType>(o.type)), 1);
    int64_t span = o.offset + 1;
    for (size_t d = 0; d < o.sizes.size(); ++d) span += (o.sizes[d] - 1) * o.strides[d];
    aclTensor* packed =
        aclCreateTensor(o.sizes.data(), o.sizes.size(), o.type, plain.data(), 0, ACL_FORMAT_ND, &n, 1, row);
    aclTensor* view = aclCreateTensor(o.sizes.data(), o.sizes.size(), o.type, o.strides.data(), o.offset, ACL_FORMAT_ND,
                                      &span, 1, o.storage);
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    aclnnStatus e = aclnnInplaceCopyGetWorkspaceSize(in ? packed : view, in ? view : packed, &bytes, &executor);
    if (e == 0)
      e = bytes ? fail(kInnerError, "a copy of an operand wants a workspace")
                : aclnnInplaceCopy(nullptr, 0, executor, stream);
    aclDestroyTensor(packed);
    aclDestroyTensor(view);
    return e;
  }
  template <class T>
  void list(const void* array, int kind) {
    const void* values = nullptr;
    uint64_t n = 0;
    if (array && softnpuAscendcArray(array, kind, &values, &n) && status_ == 0)
      status_ = kBadParameter, text_ = "an attribute is no array";
    context_.attrs.PutList(static_cast<const T*>(values), n);
  }
  bool fits(const Variant& v) const {
    for (size_t i = 0; i < operands_.size(); ++i)
      if (operands_[i].tensor && v.types[i] >= 0 && v.types[i] != operands_[i].type) return false;
    return true;
  }
  std::string types() const {
    std::string out;
    for (size_t i = 0; i < operands_.size(); ++i)
      if (operands_[i].tensor)
        out += (out.empty() ? "" : ", ") + std::string(op_.names[i]) + " of type " +
               ge::TypeUtils::DataTypeToSerialString(static_cast<ge::DataType>(operands_[i].type));
    return out;
  }
  aclnnStatus fail(aclnnStatus code, const std::string& text) const {
    softnpuAscendcMessage((std::string("aclnn") + op_.type + ": " + text).c_str());
    return code;
  }

  const Operator& op_;
  gert::TilingContext context_;
  std::vector<Operand> operands_;
  size_t inputs_ = 0;
  const Variant* variant_ = nullptr;
  Variant::Enter enter_ = nullptr;
  uint64_t own_ = 0, total_ = 0;  // the kernel's part of the workspace; with the tiling and copies
  aclnnStatus status_ = 0;
  std::string text_;
};

// The two functions' bodies; neither throws.
template <class Fill>
aclnnStatus first(const Operator& op, uint64_t* bytes, aclOpExecutor** executor, Fill fill) {
  try {
    auto call = std::make_unique<Call>(op);
    fill(*call);
    const aclnnStatus status = call->plan(bytes, executor);
    if (status == 0) call.release();
    return status;
  } catch (const std::exception& e) {
    softnpuAscendcMessage((std::string("aclnn") + op.type + ": " + e.what()).c_str());
  } catch (...) {
    softnpuAscendcMessage(
        (std::string("aclnn") + op.type + ": an exception that is none of the standard library's").c_str());
  }
  return kInnerError;
}
inline aclnnStatus second(void* workspace, uint64_t bytes, aclOpExecutor* executor, aclrtStream stream) {
  const std::unique_ptr<Call> call(reinterpret_cast<Call*>(executor));
  if (call == nullptr) return kNullParameter;
  try {
    return call->run(workspace, bytes, stream);
  } catch (const std::exception& e) {
    softnpuAscendcMessage(e.what());
  } catch (...) {
    softnpuAscendcMessage("an exception that is none of the standard library's");
  }
  return kInnerError;
}

}  // namespace ascendc_host
