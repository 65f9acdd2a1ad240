// The two phases of an aclnn call, without ATen. Phase one: Plan validates the caller's arguments and copies them into an
// executor. Phase two: launch puts the executor on a stream. Who calls it: the generated entry points (tools/codegen/opapi.py).
// What it is not: the computation (frame.h shows the arguments to ATen, run.cpp calls it).
//
// Cost, contiguous add of 16 floats: phase one ~60 ns, phase two ~40 ns and the queue.
#pragma once

#include <type_traits>

#include "softnpu/nnopbase/executor.h"
#include "softnpu/runtime/enqueue.h"

namespace softnpu::ops {

class Frame;
class Plan;
struct Script;

// The number that a caller wrote, of what came as a float: a decimal of up to six digits that rounds to it (0.1, not
// 0.10000000149), or else the float itself.
double decimal(float value);

// How long a kernel takes, so that launch can choose a thread: nanoseconds an element on one thread, or a rule.
enum class CostRule : uint8_t { kElements, kMatmul, kConvolution, kSerial };

// What phase one checks beyond handles and types. False: the plan has failed and says why.
using Check = bool (*)(Plan&);

// What data types a parameter takes: a row of ops/types.yaml.
struct ParamTypes {
  const char* name;
  uint64_t accepts;  // a bit for each aclDataType; 0: anything, or no tensor
  uint8_t group;     // parameters of one group have one type; 0: of none
  bool starred;      // or float32, where the group's is float16 or bfloat16
  bool apart;        // a result that may be real where operands are complex: a magnitude, an explicit conversion
};
constexpr int kTypeGroups = 4;

// Whether results must hold the operands' common type; kReal: a complex operand gives a real result.
enum class Casts : uint8_t { kNo, kYes, kReal };

// What a parameter takes on hardware, by chip family, in the order of ops/hardware.yaml.
enum Family { kA2, kA3, kA5, kA1, kFamilies };
struct HardwareTypes {
  uint64_t accepts[kFamilies];  // 0: anything, or no tensor
};
constexpr uint64_t kAbsent = uint64_t{1} << 63;  // the family lacks the operator

struct OpTypes {
  const ParamTypes* params;  // as many as the operator has
  Casts casts;
  uint8_t common;                 // the least category of the operands' common type (types.cpp)
  const HardwareTypes* hardware;  // as many as the operator has, or null
};

struct Op {
  const char* name;
  void (*run)(Frame& frame);                // by ATen; throws
  bool (*fast)(const nnopbase::Arg* args);  // a direct loop for the simplest case, or false; may be null
  Check check;                              // may be null
  const OpTypes* types;
  CostRule rule;
  float ns;  // an element (kElements, kSerial), a multiply-add (others)
  uint16_t nargs;
  const Script* script = nullptr;  // instead of `run`: of an operator that holds a collective (script.h)
};

// Whether the arguments have types that the operator takes (types.cpp); false: the plan has failed.
bool check_types(Plan& plan, const OpTypes& types);
const char* dtype_name(int32_t dtype);

// ANYCEND_STRICT: whether what the chosen chip does not take is refused, and the refusal (hardware.cpp).
extern const bool strict;
bool check_hardware(Plan& plan, const OpTypes& types);

// Why no operator can run with the torch that was found, or null (version.cpp).
extern const char* const wrong_torch;

// Whether every call of phase one is logged, or may be one that ANYCEND_FAULT fails (call_log.cpp).
extern const bool watched;

class Plan {
 public:
  Plan(const Op& op, uint64_t* workspace_size, aclOpExecutor** executor)
      : op_(op), size_(workspace_size), out_(executor) {
    if (!workspace_size || !executor) {
      fail_null(workspace_size ? "executor" : "workspaceSize");
      return;
    }
    e_ = nnopbase::make_executor(&op, op.nargs);
    if (!e_) fail(ACLNN_ERR_INNER_CREATE_EXECUTOR, "too many live executors: were they launched or destroyed?");
  }
  Plan(const Plan&) = delete;
  ~Plan() {
    if (e_ && !handed_out_) nnopbase::release_executor(e_);
  }

  void in(const aclTensor* t, const char* name, bool optional = false) { tensor(t, name, optional, kIn); }
  void out(const aclTensor* t, const char* name, bool optional = false) { tensor(t, name, optional, kOut); }
  void inout(const aclTensor* t, const char* name, bool optional = false) { tensor(t, name, optional, kIn | kOut); }
  void in(const aclTensorList* list, const char* name, bool optional = false) { tensors(list, name, optional, kIn); }
  void out(const aclTensorList* list, const char* name, bool optional = false) { tensors(list, name, optional, kOut); }
  void inout(const aclTensorList* list, const char* name, bool optional = false) {
    tensors(list, name, optional, kIn | kOut);
  }
  void in(const aclScalar* scalar, const char* name, bool optional = false);
  void in(const aclScalarList* list, const char* name, bool optional = false);
  void in(const aclIntArray* array, const char* name, bool optional = false);
  void in(const aclFloatArray* array, const char* name, bool optional = false);
  void in(const aclBoolArray* array, const char* name, bool optional = false);
  void in(const char* string, const char* name, bool optional = false);
  void in(double value, const char*, bool = false) {
    if (nnopbase::Arg* a = next(nnopbase::Kind::kDouble)) a->d = value;
  }
  void in(float value, const char* name, bool = false) { in(decimal(value), name); }
  template <class T>
    requires(std::is_integral_v<T> || std::is_enum_v<T>)
  void in(T value, const char*, bool = false) {
    if (nnopbase::Arg* a = next(nnopbase::Kind::kInt)) a->i = static_cast<int64_t>(value);
  }

  // Runs the operator's check and hands the executor out.
  aclnnStatus done() { return __builtin_expect(watched, 0) ? finish_watched() : finish(); }

  const nnopbase::Arg* args() const { return e_->args; }
  int nargs() const { return e_->nargs; }
  const nnopbase::Arg& arg(const char* name) const;  // by name, for checks of operators that are not small
  // Sets the recent error message to "<operator>: <text>".
  bool fail(aclnnStatus status, const char* text);
  bool fail_parameter(aclnnStatus status, const char* parameter, const char* text);

 private:
  static constexpr int kIn = 1, kOut = 2;
  aclnnStatus finish() {
    if (status_ || !check_types(*this, *op_.types) || (op_.check && !op_.check(*this))) return status_;
    if (__builtin_expect(strict, 0) && op_.types->hardware && !check_hardware(*this, *op_.types)) return status_;
    if (__builtin_expect(wrong_torch != nullptr, 0)) return fail(ACLNN_ERR_INNER_CREATE_EXECUTOR, wrong_torch), status_;
    *size_ = 0;
    if (__builtin_expect(op_.script != nullptr, 0) && !prepare()) return status_;
    *out_ = nnopbase::Executors::handle(e_);
    handed_out_ = true;
    return 0;
  }
  bool prepare();                // script.cpp: the group, the shapes and the workspace
  aclnnStatus finish_watched();  // call_log.cpp
  nnopbase::Arg* next(nnopbase::Kind kind, int way = kIn) {
    if (status_) return nullptr;
    nnopbase::Arg* a = &e_->args[e_->nargs++];
    a->kind = kind;
    a->in = way & kIn;
    a->out = way & kOut;
    a->count = 0;
    return a;
  }
  void fail_null(const char* name);
  void tensor(const aclTensor* handle, const char* name, bool optional, int way) {
    nnopbase::Arg* a = next(nnopbase::Kind::kTensor, way);
    if (!a) return;
    a->tensor = nullptr;
    const aclTensor* t = nnopbase::Tensors::find(handle);
    if (__builtin_expect(!t, 0)) {
      if (!handle && optional) return;
      return handle ? bad_tensor(name, nullptr) : fail_null(name);
    }
    if (__builtin_expect(!known_dtype(t->dtype) || (!t->data && t->numel), 0) && !packs(t)) return bad_tensor(name, t);
    a->tensor = nnopbase::copy_tensor(e_, t, const_cast<aclTensor*>(handle));
    if (__builtin_expect(t->dtype >= kPacked, 0)) pack(a->tensor);
  }
  // Elements of 4 bits, two in a byte: kernels see the bytes, so that the dimension of stride 1 is half as long.
  static constexpr int32_t kPacked = 40;
  static bool packs(const aclTensor* t);
  static void pack(nnopbase::TensorCopy* copy);
  void bad_tensor(const char* name, const aclTensor* t);
  void tensors(const aclTensorList* list, const char* name, bool optional, int way);
  static bool known_dtype(int32_t dtype) { return dtype >= 0 && dtype < 64 && ((0x3a08031fdfULL >> dtype) & 1); }

  const Op& op_;
  uint64_t* size_;
  aclOpExecutor** out_;
  aclOpExecutor* e_ = nullptr;
  aclnnStatus status_ = 0;
  bool handed_out_ = false;  // else, by failure or by exception, the executor is ours to free
};

// Phase two. An ordinary executor is spent, whatever comes back.
aclnnStatus launch(const Op& op, aclOpExecutor* executor, aclrtStream stream) noexcept;

// What a phase that threw returns (out of host memory).
aclnnStatus failed(const Op& op) noexcept;

// Checks for rows of the table.
bool check_broadcast(Plan& plan);   // every output has the shape its inputs broadcast to
bool check_same_shape(Plan& plan);  // every tensor has the shape of the first
bool check_quantized(
    Plan& plan);  // 8-bit results have the first operand's shape, int32 perhaps an eighth of its last size
bool check_same_lists(Plan& plan);       // every list has as many members as the first
bool check_floating_result(Plan& plan);  // check_broadcast, and results of floating types
bool check_lstm_cell(Plan& plan);        // these four: every shape of a recurrent network (recurrent_shapes.cpp)
bool check_lstm_cell_backward(Plan& plan);
bool check_lstm(Plan& plan);  // forward or backward
bool check_gru(Plan& plan);   // forward or backward

}  // namespace softnpu::ops
