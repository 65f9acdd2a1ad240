// OpDef: what an operator is, as its package's host side writes it; and the registry that OP_ADD fills. Read by opp_build (describe.cpp)
// to write the aclnn functions, and by these (package.h) to call the tiling function. What it is not: checks; opp_build makes them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "context.h"

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3, VIRTUAL = 4 };
enum class FollowType { ALL = 0, DTYPE, FORMAT, SHAPE, INVALID };
enum class DependScope { ALL = 0, TILING, INVALID };
enum class HcclServerType : uint32_t { AICPU = 0, AICORE, CCU, MAX };

// Each setter returns its object, as users chain them.
class OpParamDef {
 public:
  explicit OpParamDef(const char* name = "") : name(name) {}
  OpParamDef& ParamType(Option o) { return kind = o, *this; }
  OpParamDef& DataType(std::vector<ge::DataType> t) { return types = std::move(t), *this; }
  OpParamDef& DataTypeList(std::vector<ge::DataType> t) { return types = std::move(t), product = true, *this; }
  OpParamDef& DataTypeForBinQuery(std::vector<ge::DataType> t) { return compiled = std::move(t), *this; }
  OpParamDef& Format(std::vector<ge::Format> f) { return formats = std::move(f), *this; }
  OpParamDef& FormatList(std::vector<ge::Format> f) { return formats = std::move(f), any_format = true, *this; }
  OpParamDef& FormatForBinQuery(std::vector<ge::Format>) { return *this; }
  OpParamDef& UnknownShapeFormat(std::vector<ge::Format> f) { return unknown_formats = std::move(f), *this; }
  OpParamDef& ValueDepend(Option) { return by_value = true, *this; }
  OpParamDef& ValueDepend(Option, DependScope) { return by_value = true, *this; }
  OpParamDef& AutoContiguous() { return *this; }
  OpParamDef& IgnoreContiguous() { return as_it_lies = true, *this; }
  OpParamDef& Scalar() { return by_value = true, *this; }
  OpParamDef& ScalarList() { return by_value = true, *this; }
  OpParamDef& To(ge::DataType) { return *this; }
  OpParamDef& To(const char*) { return *this; }
  OpParamDef& Version(uint32_t number) { return version = number, *this; }
  OpParamDef& InitValue(uint64_t value) { return zeroed = true, filled = value != 0, *this; }
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  OpParamDef& InitValue(T value) {
    return zeroed = true, filled = value != T{}, *this;
  }
  template <class T>
  OpParamDef& InitValue(const std::vector<T>& values) {
    zeroed = true, filled = false;
    for (const T& value : values) filled = filled || value != T{};
    return *this;
  }
  OpParamDef& OutputShapeDependOnCompute() { return computed_shape = true, *this; }
  OpParamDef& Follow(const char* other, FollowType = FollowType::ALL) { return follows = other, *this; }

  std::string name, follows;
  Option kind = REQUIRED;
  std::vector<ge::DataType> types, compiled;  // compiled: the kernel's type for each of them, where it is another
  std::vector<ge::Format> formats, unknown_formats;
  bool product = false, any_format = false, by_value = false, as_it_lies = false, zeroed = false, filled = false,
       computed_shape = false;
  uint32_t version = 0;
};

class OpAttrDef {
 public:
  explicit OpAttrDef(const char* name) : name(name) {}
  OpAttrDef& AttrType(Option) { return *this; }
  OpAttrDef& Int(int64_t v = 0) { return is("int64_t", v); }
  OpAttrDef& Float(float v = 0) { return is("double", v); }
  OpAttrDef& Bool(bool v = false) { return is("bool", v); }
  OpAttrDef& String(const char* v = "") {
    type = "const char*";
    return absent = [text = std::string(v ? v : "")](gert::RuntimeAttrs& to) { to.PutText(text.c_str()); }, *this;
  }
  OpAttrDef& ListInt(std::vector<int64_t> v = {}) { return are("const aclIntArray*", std::move(v)); }
  OpAttrDef& ListFloat(std::vector<float> v = {}) { return are("const aclFloatArray*", std::move(v)); }
  OpAttrDef& ListBool(const std::vector<bool>& v = {}) {
    type = "const aclBoolArray*";
    return absent =
               [bytes = std::vector<char>(v.begin(), v.end())](gert::RuntimeAttrs& to) {
                 to.PutList(reinterpret_cast<const bool*>(bytes.data()), bytes.size());
               },
           *this;
  }
  OpAttrDef& Version(uint32_t number) { return version = number, *this; }
  OpAttrDef& Comment(const char*) { return *this; }

  std::string name, type;
  uint32_t version = 0;
  std::function<void(gert::RuntimeAttrs&)> absent;  // its default: of functions of an earlier version

 private:
  template <class T>
  OpAttrDef& is(const char* kind, T value) {
    return type = kind, absent = [value](gert::RuntimeAttrs& to) { to.Put(value); }, *this;
  }
  template <class T>
  OpAttrDef& are(const char* kind, std::vector<T> values) {
    type = kind;
    return absent = [values](gert::RuntimeAttrs& to) { to.PutList(values.data(), values.size()); }, *this;
  }
};

class OpParams {
 public:
  OpParams() = default;
  OpParams(OpParams&&) = default;
  OpParams(const OpParams& other) : inputs(copied(other.inputs)), outputs(copied(other.outputs)) {}
  OpParamDef& Input(const char* name) { return of(inputs, name); }
  OpParamDef& Output(const char* name) { return of(outputs, name); }
  std::vector<std::unique_ptr<OpParamDef>> inputs, outputs;

 private:
  static std::vector<std::unique_ptr<OpParamDef>> copied(const std::vector<std::unique_ptr<OpParamDef>>& all) {
    std::vector<std::unique_ptr<OpParamDef>> copy;
    for (const auto& p : all) copy.push_back(std::make_unique<OpParamDef>(*p));
    return copy;
  }
  static OpParamDef& of(std::vector<std::unique_ptr<OpParamDef>>& all, const char* name) {
    for (auto& p : all)
      if (p->name == name) return *p;
    return *all.emplace_back(std::make_unique<OpParamDef>(name));
  }
};

// For one chip. Where it has inputs and outputs of its own, these are the operator's on that chip.
class OpAICoreConfig : public OpParams {
 public:
  OpAICoreConfig() = default;
  explicit OpAICoreConfig(const char*) {}
  // Flags of the vendor's compiler and of its graph engine.
  OpAICoreConfig& DynamicCompileStaticFlag(bool) { return *this; }
  OpAICoreConfig& DynamicFormatFlag(bool) { return *this; }
  OpAICoreConfig& DynamicRankSupportFlag(bool) { return *this; }
  OpAICoreConfig& DynamicShapeSupportFlag(bool) { return *this; }
  OpAICoreConfig& NeedCheckSupportFlag(bool) { return *this; }
  OpAICoreConfig& PrecisionReduceFlag(bool) { return *this; }
  OpAICoreConfig& ExtendCfgInfo(const char* key, const char* value) { return more[key] = value, *this; }

  // opFile.value: the kernel's file; opInterface.value: the kernel in it. The others are the vendor's graph engine's.
  std::map<std::string, std::string> more;
};

class OpAICoreDef {
 public:
  using TilingFunction = std::function<ge::graphStatus(gert::TilingContext*)>;
  OpAICoreDef& SetTiling(TilingFunction f) { return tiling = std::move(f), *this; }
  template <class F>
  OpAICoreDef& SetTilingParse(F) {
    return parsed = true, *this;
  }
  template <class F>
  OpAICoreDef& SetCheckSupport(F) {
    return *this;
  }
  template <class F>
  OpAICoreDef& SetOpSelectFormat(F) {
    return *this;
  }
  OpAICoreDef& LaunchWithZeroEleOutputTensors(bool on) { return launch_empty = on, *this; }
  OpAICoreDef& AddConfig(const char* soc) { return configs[soc] = nullptr, *this; }
  // The chip has a copy: what the caller does to the config afterwards, as for the next chip, does not reach it.
  OpAICoreDef& AddConfig(const char* soc, OpAICoreConfig& config) {
    auto copy = std::make_shared<OpAICoreConfig>();
    for (auto& p : config.inputs) copy->inputs.push_back(std::make_unique<OpParamDef>(*p));
    for (auto& p : config.outputs) copy->outputs.push_back(std::make_unique<OpParamDef>(*p));
    copy->more = config.more;
    return configs[soc] = copy, *this;
  }

  TilingFunction tiling;
  bool parsed = false, launch_empty = false;
  std::map<std::string, std::shared_ptr<OpAICoreConfig>> configs;
};
// Communication in an operator: refused by opp_build.
class OpMC2Def {
 public:
  OpMC2Def& HcclGroup(const char*) { return used = true, *this; }
  OpMC2Def& HcclGroup(const std::vector<const char*>&) { return used = true, *this; }
  OpMC2Def& HcclServerType(ops::HcclServerType, const char* = nullptr) { return used = true, *this; }
  bool used = false;
};

class OpDef : public OpParams {
 public:
  explicit OpDef(const char* type) : type(type) {}
  virtual ~OpDef() = default;
  OpAttrDef& Attr(const char* name) {
    for (auto& a : attrs)
      if (a->name == name) return *a;
    return *attrs.emplace_back(std::make_unique<OpAttrDef>(name));
  }
  OpDef& Comment(const char*) { return *this; }
  OpAICoreDef& AICore() { return core; }
  OpMC2Def& MC2() { return mc2; }
  template <class F>
  OpDef& SetInferShape(F) {
    return *this;
  }
  template <class F>
  OpDef& SetInferDataType(F) {
    return *this;
  }
  template <class F>
  OpDef& SetInferShapeRange(F) {
    return *this;
  }

  std::string type;
  std::vector<std::unique_ptr<OpAttrDef>> attrs;
  OpAICoreDef core;
  OpMC2Def mc2;
};

}  // namespace ops

namespace ascendc_host {
using Makers = std::map<std::string, std::function<std::unique_ptr<ops::OpDef>()>>;
inline Makers& makers() {
  static Makers all;
  return all;
}
inline bool add(const char* name, std::function<std::unique_ptr<ops::OpDef>()> make) {
  makers()[name] = std::move(make);
  return true;
}
// Tiling functions that IMPL_OP_OPTILING registers apart from the definition.
inline std::map<std::string, ops::OpAICoreDef::TilingFunction>& tilings() {
  static std::map<std::string, ops::OpAICoreDef::TilingFunction> all;
  return all;
}
// Operators with a parse function (TilingParse), and the inputs whose values a tiling function asked for.
inline std::set<std::string>& parsed() {
  static std::set<std::string> all;
  return all;
}
inline std::map<std::string, std::set<size_t>>& depended() {
  static std::map<std::string, std::set<size_t>> all;
  return all;
}
struct Implementation {
  explicit Implementation(const char* op) : op(op) {}
  Implementation& Tiling(ops::OpAICoreDef::TilingFunction f) { return tilings()[op] = std::move(f), *this; }
  template <class Info, class F>
  Implementation& TilingParse(F) {
    return parsed().insert(op), *this;
  }
  template <class F>
  Implementation& InferShape(F) {
    return *this;
  }
  template <class F>
  Implementation& InferDataType(F) {
    return *this;
  }
  template <class F>
  Implementation& InferShapeRange(F) {
    return *this;
  }
  Implementation& TilingInputsDataDependency(std::initializer_list<int32_t> places) {
    return depended()[op].insert(places.begin(), places.end()), *this;
  }
  Implementation& InputsDataDependency(std::initializer_list<int32_t> places) {
    return TilingInputsDataDependency(places);
  }
  const char* op;
};
}  // namespace ascendc_host

#define OP_ADD(Op, ...)                                   \
  [[maybe_unused]] static const bool ascendc_added_##Op = \
      ::ascendc_host::add(#Op, []() -> std::unique_ptr<::ops::OpDef> { return std::make_unique<Op>(#Op); })
#define IMPL_OP_OPTILING(Op) \
  [[maybe_unused]] static ::ascendc_host::Implementation ascendc_tiling_##Op = ::ascendc_host::Implementation(#Op)
#define IMPL_OP_INFERSHAPE(Op) \
  [[maybe_unused]] static ::ascendc_host::Implementation ascendc_shape_##Op = ::ascendc_host::Implementation(#Op)
#define IMPL_OP(Op) \
  [[maybe_unused]] static ::ascendc_host::Implementation ascendc_impl_##Op = ::ascendc_host::Implementation(#Op)
