// The gert names of an operator package's host side: shapes, tensors, attributes and the contexts that tiling and shape functions are
// given. What it is not: graphs; each call of an aclnn function makes its own. Filled by package.h, read by users' functions.
#pragma once

#include <cstdio>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph.h"

namespace fe {
// What GetPlatformInfo points at; PlatformAscendC (platform.h) reads the chip itself.
class PlatFormInfos {};
class OptionalInfos {};
}  // namespace fe

namespace ascendc_host {
// Said once before a getter gives null for what is not there, as the vendor's do: who reads that ends the process.
inline void absent(const std::string& op, const char* what, size_t i, const std::vector<std::string>& names) {
  std::string text = op + ": its tiling function asks for " + what + " " + std::to_string(i) + ", and it has ";
  text += names.empty() ? "none" : std::to_string(names.size()) + " (";
  for (size_t n = 0; n < names.size(); ++n) text += names[n] + (n + 1 < names.size() ? ", " : ")");
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (told.insert(text).second) fprintf(stderr, "%s\n", text.c_str());
}
}  // namespace ascendc_host

namespace gert {

class Shape {
 public:
  static constexpr size_t kMaxDimNum = 25;
  static constexpr int64_t kInvalidDimValue = INT64_MIN;

  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) {
    for (int64_t s : sizes) AppendDim(s);
  }
  size_t GetDimNum() const { return count_; }
  void SetDimNum(size_t n) { count_ = n < kMaxDimNum ? n : kMaxDimNum; }
  int64_t GetDim(size_t i) const { return i < count_ ? sizes_[i] : kInvalidDimValue; }
  void SetDim(size_t i, int64_t size) {
    if (i < kMaxDimNum) sizes_[i] = size;
  }
  Shape& AppendDim(int64_t size) {
    if (count_ < kMaxDimNum) sizes_[count_++] = size;
    return *this;
  }
  int64_t operator[](size_t i) const { return GetDim(i); }
  int64_t& operator[](size_t i) { return sizes_[i]; }
  int64_t GetShapeSize() const {
    int64_t n = 1;
    for (size_t i = 0; i < count_; ++i) n *= sizes_[i];
    return n;
  }
  bool IsScalar() const { return count_ == 0; }
  void SetScalar() { count_ = 0; }
  bool operator==(const Shape& other) const {
    return count_ == other.count_ && memcmp(sizes_, other.sizes_, count_ * sizeof *sizes_) == 0;
  }
  bool operator!=(const Shape& other) const { return !(*this == other); }

 private:
  size_t count_ = 0;
  int64_t sizes_[kMaxDimNum] = {};
};

class StorageShape {
 public:
  StorageShape() = default;
  StorageShape(const Shape& origin, const Shape& storage) : origin_(origin), storage_(storage) {}
  const Shape& GetOriginShape() const { return origin_; }
  const Shape& GetStorageShape() const { return storage_; }
  Shape& MutableOriginShape() { return origin_; }
  Shape& MutableStorageShape() { return storage_; }

 private:
  Shape origin_, storage_;
};

class CompileTimeTensorDesc {
 public:
  CompileTimeTensorDesc() = default;
  CompileTimeTensorDesc(ge::DataType type, ge::Format format) : type_(type), format_(format) {}
  ge::DataType GetDataType() const { return type_; }
  ge::Format GetStorageFormat() const { return format_; }
  ge::Format GetOriginFormat() const { return format_; }

 private:
  ge::DataType type_ = ge::DT_UNDEFINED;
  ge::Format format_ = ge::FORMAT_ND;
};

// Of a tensor the shape and the type; its values are the device's. An input whose values the tiling function asked for has a name here.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Shape& shape, ge::DataType type, ge::Format format) : shape_(shape, shape), desc_(type, format) {}
  const Shape& GetOriginShape() const { return shape_.GetOriginShape(); }
  const Shape& GetStorageShape() const { return shape_.GetStorageShape(); }
  const StorageShape& GetShape() const { return shape_; }
  int64_t GetShapeSize() const { return GetStorageShape().GetShapeSize(); }
  size_t GetSize() const { return static_cast<size_t>(GetShapeSize() * ge::GetSizeByDataType(GetDataType())); }
  ge::DataType GetDataType() const { return desc_.GetDataType(); }
  ge::Format GetStorageFormat() const { return desc_.GetStorageFormat(); }
  ge::Format GetOriginFormat() const { return desc_.GetOriginFormat(); }
  const CompileTimeTensorDesc& Desc() const { return desc_; }
  template <class T>
  const T* GetData() const {
    if (!values_of.empty())
      throw std::runtime_error("its tiling function reads the values of " + values_of +
                               " (TilingInputsDataDependency), which are the device's: make them an attribute");
    return nullptr;
  }

  std::string values_of;

 private:
  StorageShape shape_;
  CompileTimeTensorDesc desc_;
};

class ContinuousVector {
 public:
  size_t GetSize() const { return size_; }
  size_t GetCapacity() const { return size_; }
  const void* GetData() const { return bytes_.data(); }
  template <class T>
  void Put(const T* values, size_t n) {
    size_ = n;
    bytes_.assign((n * sizeof(T) + 7) / 8, 0);
    if (n) memcpy(bytes_.data(), values, n * sizeof(T));
  }

 private:
  std::vector<uint64_t> bytes_;
  size_t size_ = 0;
};
template <class T>
class TypedContinuousVector : public ContinuousVector {
 public:
  const T* GetData() const { return static_cast<const T*>(ContinuousVector::GetData()); }
};

// A value an attribute, in the order of the operator's definition: int64_t, float, bool, text, or a vector of one of them.
class RuntimeAttrs {
 public:
  template <class T>
  const T* GetAttrPointer(size_t i) const {
    if (i < values_.size()) return static_cast<const T*>(values_[i].get());
    ascendc_host::absent(op, "attribute", i, names);
    return nullptr;
  }
  const int64_t* GetInt(size_t i) const { return GetAttrPointer<int64_t>(i); }
  const float* GetFloat(size_t i) const { return GetAttrPointer<float>(i); }
  const bool* GetBool(size_t i) const { return GetAttrPointer<bool>(i); }
  const char* GetStr(size_t i) const { return GetAttrPointer<char>(i); }
  const TypedContinuousVector<int64_t>* GetListInt(size_t i) const {
    return GetAttrPointer<TypedContinuousVector<int64_t>>(i);
  }
  const TypedContinuousVector<float>* GetListFloat(size_t i) const {
    return GetAttrPointer<TypedContinuousVector<float>>(i);
  }
  const TypedContinuousVector<bool>* GetListBool(size_t i) const {
    return GetAttrPointer<TypedContinuousVector<bool>>(i);
  }
  size_t GetAttrNum() const { return values_.size(); }

  // Eight bytes a number, so that what reads an int32_t of it finds one.
  template <class T>
  void Put(T value) {
    auto number = std::make_shared<uint64_t>(0);
    memcpy(number.get(), &value, sizeof value);
    values_.push_back(number);
  }
  void PutText(const char* text) {
    const std::string copy = text ? text : "";
    auto bytes = std::shared_ptr<char[]>(new char[copy.size() + 1]);
    memcpy(bytes.get(), copy.c_str(), copy.size() + 1);
    values_.push_back(std::shared_ptr<void>(bytes, bytes.get()));
  }
  template <class T>
  void PutList(const T* values, size_t n) {
    auto list = std::make_shared<TypedContinuousVector<T>>();
    list->Put(values, n);
    values_.push_back(list);
  }

  std::string op;
  std::vector<std::string> names;

 private:
  std::vector<std::shared_ptr<void>> values_;
};

// The bytes that the kernel is given.
class TilingData {
 public:
  static constexpr size_t kCapacity = 64 * 1024;
  void* GetData() { return bytes_.data(); }
  const void* GetData() const { return bytes_.data(); }
  size_t GetCapacity() const { return kCapacity; }
  size_t GetDataSize() const { return size_; }
  void SetDataSize(size_t n) {
    if (n > kCapacity)
      throw std::length_error("SetDataSize: a tiling of " + std::to_string(n) + " bytes, and there is room for " +
                              std::to_string(kCapacity) + " (GetCapacity)");
    size_ = n;
  }
  template <class T>
  ge::graphStatus Append(const T& value) {
    if (size_ + sizeof value > kCapacity) return ge::GRAPH_FAILED;
    memcpy(reinterpret_cast<char*>(bytes_.data()) + size_, &value, sizeof value);
    size_ += sizeof value;
    return ge::GRAPH_SUCCESS;
  }

 private:
  std::vector<uint64_t> bytes_ = std::vector<uint64_t>(kCapacity / 8);
  size_t size_ = 0;
};

// What the contexts have in common: the call's operands. An optional operand that was not given is null.
class Operands {
 public:
  const char* GetNodeName() const { return name.c_str(); }
  const char* GetNodeType() const { return name.c_str(); }
  size_t GetComputeNodeInputNum() const { return inputs.size(); }
  size_t GetComputeNodeOutputNum() const { return outputs.size(); }
  const RuntimeAttrs* GetAttrs() const { return &attrs; }
  const Tensor* GetInputTensor(size_t i) const { return at(inputs, "input", i, input_names); }
  const Tensor* GetRequiredInputTensor(size_t i) const { return GetInputTensor(i); }
  const Tensor* GetOptionalInputTensor(size_t i) const { return GetInputTensor(i); }
  const CompileTimeTensorDesc* GetInputDesc(size_t i) const { return desc(GetInputTensor(i)); }
  const CompileTimeTensorDesc* GetRequiredInputDesc(size_t i) const { return desc(GetInputTensor(i)); }
  const CompileTimeTensorDesc* GetOptionalInputDesc(size_t i) const { return desc(GetInputTensor(i)); }
  const CompileTimeTensorDesc* GetOutputDesc(size_t i) const { return desc(GetOutputTensor(i)); }

  std::string name;
  std::vector<std::string> input_names, output_names;
  std::vector<std::unique_ptr<Tensor>> inputs, outputs;
  RuntimeAttrs attrs;

 protected:
  const Tensor* GetOutputTensor(size_t i) const { return at(outputs, "output", i, output_names); }

 private:
  const Tensor* at(const std::vector<std::unique_ptr<Tensor>>& all, const char* what, size_t i,
                   const std::vector<std::string>& names) const {
    if (i < all.size()) return all[i].get();
    ascendc_host::absent(name, what, i, names);
    return nullptr;
  }
  static const CompileTimeTensorDesc* desc(const Tensor* t) { return t ? &t->Desc() : nullptr; }
};

class TilingContext : public Operands {
 public:
  const StorageShape* GetInputShape(size_t i) const { return shape(GetInputTensor(i)); }
  const StorageShape* GetRequiredInputShape(size_t i) const { return shape(GetInputTensor(i)); }
  const StorageShape* GetOptionalInputShape(size_t i) const { return shape(GetInputTensor(i)); }
  const StorageShape* GetOutputShape(size_t i) const { return shape(GetOutputTensor(i)); }
  fe::PlatFormInfos* GetPlatformInfo() const { return &platform_; }
  // What a parse function left behind. No parse function is called, so where there is one this would be null without a reason.
  const void* GetCompileInfo() const {
    if (parsed)
      throw std::runtime_error(
          "its tiling function reads compile info (GetCompileInfo), and no TilingParse is called here: "
          "ask PlatformAscendC(context->GetPlatformInfo())");
    return nullptr;
  }
  template <class T>
  const T* GetCompileInfo() const {
    return static_cast<const T*>(GetCompileInfo());
  }
  TilingData* GetRawTilingData() { return &tiling_; }
  template <class T>
  T* GetTilingData() {
    static_assert(sizeof(T) <= TilingData::kCapacity,
                  "a tiling has no more bytes than GetRawTilingData()->GetCapacity()");
    tiling_.SetDataSize(sizeof(T));
    return static_cast<T*>(tiling_.GetData());
  }
  ge::graphStatus SetBlockDim(uint32_t n) {
    blocks_ = n;
    return ge::GRAPH_SUCCESS;
  }
  uint32_t GetBlockDim() const { return blocks_; }
  ge::graphStatus SetTilingKey(uint64_t key) {
    key_ = key;
    return ge::GRAPH_SUCCESS;
  }
  uint64_t GetTilingKey() const { return key_; }
  size_t* GetWorkspaceSizes(size_t n) {
    if (workspaces_.size() < n) workspaces_.resize(n, 0);
    return workspaces_.data();
  }
  size_t GetWorkspaceNum() const { return workspaces_.size(); }
  // These steer the hardware; nothing here depends on them.
  ge::graphStatus SetNeedAtomic(bool) { return ge::GRAPH_SUCCESS; }
  ge::graphStatus SetScheduleMode(uint32_t) { return ge::GRAPH_SUCCESS; }
  ge::graphStatus SetLocalMemorySize(uint32_t) { return ge::GRAPH_SUCCESS; }
  ge::graphStatus SetTilingCond(int32_t) { return ge::GRAPH_SUCCESS; }
  int32_t GetDeterministic() const { return 0; }

  bool parsed = false;

 private:
  static const StorageShape* shape(const Tensor* t) { return t ? &t->GetShape() : nullptr; }
  mutable fe::PlatFormInfos platform_;
  TilingData tiling_;
  std::vector<size_t> workspaces_;
  uint32_t blocks_ = 0;
  uint64_t key_ = 0;
};
class TilingParseContext : public TilingContext {};

// Shape and type functions compile; an aclnn call's outputs are given by its caller, so nobody calls them.
class InferShapeContext : public Operands {
 public:
  const Shape* GetInputShape(size_t i) const { return shape(GetInputTensor(i)); }
  const Shape* GetRequiredInputShape(size_t i) const { return shape(GetInputTensor(i)); }
  const Shape* GetOptionalInputShape(size_t i) const { return shape(GetInputTensor(i)); }
  Shape* GetOutputShape(size_t i) { return i < shapes_.size() ? &shapes_[i] : nullptr; }
  void Outputs(size_t n) { shapes_.resize(n); }

 private:
  static const Shape* shape(const Tensor* t) { return t ? &t->GetOriginShape() : nullptr; }
  std::deque<Shape> shapes_;
};
class InferDataTypeContext : public Operands {
 public:
  ge::DataType GetInputDataType(size_t i) const { return type(GetInputTensor(i)); }
  ge::DataType GetRequiredInputDataType(size_t i) const { return type(GetInputTensor(i)); }
  ge::DataType GetOptionalInputDataType(size_t i) const { return type(GetInputTensor(i)); }
  ge::DataType GetOutputDataType(size_t i) const { return i < types_.size() ? types_[i] : ge::DT_UNDEFINED; }
  ge::graphStatus SetOutputDataType(size_t i, ge::DataType t) {
    if (types_.size() <= i) types_.resize(i + 1, ge::DT_UNDEFINED);
    types_[i] = t;
    return ge::GRAPH_SUCCESS;
  }

 private:
  static ge::DataType type(const Tensor* t) { return t ? t->GetDataType() : ge::DT_UNDEFINED; }
  std::vector<ge::DataType> types_;
};
class InferShapeRangeContext : public InferShapeContext {};

}  // namespace gert
