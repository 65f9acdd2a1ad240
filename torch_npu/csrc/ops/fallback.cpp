// The boxed fallback: an operator without an npu kernel runs on CPU copies of its tensors, warned of once, counted always.
// What it is not: a place for operators whose schema hides what they write (native_batch_norm): those have kernels of their own.
//
// Rules. Equal tensors stay equal (one CPU copy each). A copy has its tensor's bytes and its lazy conjugation and negation, and is
// contiguous or dense if the tensor is; that of an `out` is contiguous. Where a written argument shares a storage with another, so
// do their copies, and the kernel decides what that means. All tensors must be on one device, but for numbers where
// PyTorch's table allows them (csrc/ops/device_check.h). An argument the schema writes is copied back, resized if the kernel
// resized it. A result that the schema aliases to a written argument is that argument. A view is rebuilt on the device from the
// CPU view's geometry. A generator becomes a CPU generator seeded from the npu one, so seeds decide results here too.
#include "csrc/ops/fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <mutex>
#include <unordered_map>

#include "csrc/core/device.h"
#include "csrc/core/generator.h"
#include "csrc/core/options.h"
#include "csrc/ops/copy.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/storage.h"

namespace npu {

namespace {

struct Counts {
  std::mutex mutex;
  std::map<std::string, int64_t> by_name;
};

Counts& counts() {
  static Counts* const instance = new Counts;  // leaked: operators may run during exit
  return *instance;
}

std::string name_of(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

constexpr const char* kNoQuantizedTensors =
    ": quantized tensors do not exist on the npu; quantize on the CPU, or call torch_npu.npu_quantize, whose codes are "
    "int8 or uint8";

bool is_npu(const at::Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

// One call: CPU copies of the npu tensors it was given, and the way back.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack) : op_(op), schema_(op.schema()), stack_(stack) {}

  void run() {
    const size_t n = schema_.arguments().size();
    begin_ = stack_->size() - n;
    originals_.assign(stack_->begin() + begin_, stack_->end());
    TORCH_CHECK_NOT_IMPLEMENTED(op_.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), "npu: ", name_of(op_),
                                " has neither an npu kernel nor a CPU kernel to fall back to; compose it of operators "
                                "that have one");
    check_devices();
    count_fallback(op_);
    find_shared_storages();
    for (size_t i = 0; i < n; ++i) to_cpu((*stack_)[begin_ + i], i);
    const c10::DeviceIndex index = device_.has_index() ? device_.index() : current_device();
    device_ = at::Device(c10::DeviceType::PrivateUse1, index);
    const NPUGuard guard(index);
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    copy_back();
    results();
  }

 private:
  struct Pair {
    at::Tensor original, copy;
  };

  // f(tensor, whether the schema writes it) for every tensor that the operator was given.
  template <class F>
  void each_tensor(F&& f) const {
    for (size_t i = 0; i < originals_.size(); ++i) {
      const c10::IValue& value = originals_[i];
      const c10::AliasInfo* alias = schema_.arguments()[i].alias_info();
      const bool written = alias && alias->isWrite();
      if (value.isTensor()) {
        f(value.toTensor(), written);
      } else if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorVector()) f(tensor, written);
      } else if (value.isOptionalTensorList()) {
        for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
          if (tensor) f(*tensor, written);
        }
      }
    }
  }

  // A kernel of the CPU looks at some arguments only, and would take what is on another device for what it copied.
  void check_devices() const {
    const bool takes_numbers = !wants_one_device(name_of(op_));
    std::optional<at::Device> npu, other;
    each_tensor([&](const at::Tensor& tensor, bool) {
      if (!tensor.defined() || tensor.is_meta() || (takes_numbers && tensor.is_cpu() && tensor.dim() == 0)) return;
      std::optional<at::Device>& first = is_npu(tensor) ? npu : other;
      if (first && *first != tensor.device()) detail::device_mismatch(*first, tensor.device());
      first = tensor.device();
    });
    if (npu && other) detail::device_mismatch(*npu, *other);
  }

  void find_shared_storages() {
    std::unordered_map<c10::StorageImpl*, std::pair<at::TensorImpl*, bool>> seen;  // its first tensor; is one written
    each_tensor([&](const at::Tensor& tensor, bool written) {
      if (!is_npu(tensor) || tensor.numel() == 0) return;
      c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
      const auto [place, first] = seen.try_emplace(storage, tensor.unsafeGetTensorImpl(), written);
      auto& [impl, any_written] = place->second;
      any_written = any_written || written;
      if (!first && any_written && impl != tensor.unsafeGetTensorImpl()) shared_.try_emplace(storage);
    });
  }

  // The same place in a copy of the whole storage.
  static at::Tensor copy_in_storage(const at::Tensor& tensor, at::Tensor& bytes) {
    if (!bytes.defined()) {
      const auto size = static_cast<int64_t>(tensor.storage().nbytes());
      bytes = at::empty({size}, at::TensorOptions(at::kCPU).dtype(at::kByte));
      npu::copy(bytes, at::empty({0}, tensor.options().dtype(at::kByte)).set_(tensor.storage(), 0, {size}));
    }
    return at::empty({0}, at::TensorOptions(at::kCPU).dtype(tensor.dtype()))
        .set_(bytes.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
  }

  static at::Tensor copy_bytes(const at::Tensor& tensor) {
    at::Tensor copy =
        at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(at::kCPU).dtype(tensor.dtype()));
    npu::copy(copy, raw(tensor));  // what the bytes mean comes along afterwards
    return copy;
  }

  // Of a tensor with gaps or repeated elements: in its order of dimensions, expanded where it is, and with gaps of one element
  // where it has larger ones. A kernel's result has strides, and is refused, by these; and the backward pass of linalg.det
  // looks at the tensor itself for whether the kernel saw a contiguous one.
  static at::Tensor copy_closed_up(const at::Tensor& tensor) {
    c10::DimVector narrow(tensor.sizes());
    int64_t inner = -1;  // the dimension of the smallest step
    for (int64_t i = 0; i < tensor.dim(); ++i) {
      if (tensor.stride(i) == 0 && narrow[i] > 1) narrow[i] = 1;
      if (narrow[i] > 1 && (inner < 0 || tensor.stride(i) < tensor.stride(inner))) inner = i;
    }
    const at::Tensor once = raw(tensor).as_strided(narrow, tensor.strides());
    c10::DimVector padded(narrow);
    int64_t step = 1;
    if (!once.is_non_overlapping_and_dense() && inner >= 0) {
      if (tensor.stride(inner) == 1) {
        ++padded[inner];
      } else {
        step = 2;
      }
    }
    std::vector<int64_t> strides = at::infer_dense_strides(padded, tensor.strides());
    for (int64_t& stride : strides) stride *= step;
    const at::Tensor copy = at::empty_strided(narrow, strides, at::TensorOptions(at::kCPU).dtype(tensor.dtype()));
    npu::copy(copy, once);
    for (int64_t i = 0; i < tensor.dim(); ++i) {
      if (narrow[i] != tensor.size(i)) strides[i] = 0;
    }
    return copy.as_strided(tensor.sizes(), strides);
  }

  // For an output, whatever it holds: contiguous, since some of the CPU's kernels go by the wrong strides through one that is not, and past its end.
  static at::Tensor like_contiguous(const at::Tensor& tensor) {
    return at::empty(tensor.sizes(), at::TensorOptions(at::kCPU).dtype(tensor.dtype()));
  }

  at::Tensor cpu_of(const at::Tensor& tensor, bool is_output) {
    if (!is_npu(tensor)) return tensor;
    if (!device_.has_index()) device_ = tensor.device();
    auto& [original, copy] = copies_[tensor.unsafeGetTensorImpl()];
    if (!copy.defined()) {
      original = tensor;
      const auto shared = shared_.find(tensor.storage().unsafeGetStorageImpl());
      copy = shared != shared_.end()                 ? copy_in_storage(tensor, shared->second)
             : is_output                             ? like_contiguous(tensor)
             : tensor.is_non_overlapping_and_dense() ? copy_bytes(tensor)
                                                     : copy_closed_up(tensor);
      copy._set_conj(tensor.is_conj());
      copy._set_neg(tensor.is_neg());
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    return copy;
  }

  void to_cpu(c10::IValue& value, size_t argument) {
    const bool is_output = schema_.arguments()[argument].is_out();
    if (value.isTensor()) {
      value = cpu_of(value.toTensor(), is_output);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(cpu_of(tensor, is_output));
      value = std::move(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor ? std::optional<at::Tensor>(cpu_of(*tensor, is_output)) : std::nullopt);
      }
      value = std::move(list);
    } else if (value.isDevice()) {
      if (value.toDevice().is_privateuseone()) {
        device_ = value.toDevice();
        value = at::Device(at::kCPU);
      }
    } else if (value.isGenerator()) {
      const std::optional<at::Generator> generator = value.toGenerator();
      TORCH_CHECK(generator->device().is_privateuseone(), "Expected a 'npu' device type for generator but found '",
                  generator->device().type(), "'");
      value = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(mixed_seed(generator)));
    } else if (value.isNone() && is_generator(argument)) {
      value = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(mixed_seed(std::nullopt)));
    }
  }

  bool is_generator(size_t argument) const {
    const auto optional = schema_.arguments()[argument].type()->cast<c10::OptionalType>();
    return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
  }

  static int64_t mixed_seed(const std::optional<at::Generator>& generator) {
    const PhiloxSlice slice = next_philox(generator, 4);
    return slice.seed ^ static_cast<int64_t>(static_cast<uint64_t>(slice.offset) * 0x9E3779B97F4A7C15ull);
  }

  void write(const at::Tensor& original) {
    if (!is_npu(original)) return;
    const at::Tensor& cpu = copies_.at(original.unsafeGetTensorImpl()).copy;
    if (cpu.sizes() != original.sizes()) {
      resize_tensor(original, cpu.sizes());
      if (cpu.is_non_overlapping_and_dense())
        original.unsafeGetTensorImpl()->set_sizes_and_strides(cpu.sizes(), cpu.strides());
    }
    if (cpu.is_conj() == original.is_conj() && cpu.is_neg() == original.is_neg()) {
      npu::copy(raw(original), raw(cpu));
    } else {  // the kernel changed what the bytes mean
      original.copy_(cpu);
    }
  }

  void copy_back() {
    for (size_t i = 0; i < originals_.size(); ++i) {
      const c10::AliasInfo* alias = schema_.arguments()[i].alias_info();
      if (!alias || !alias->isWrite()) continue;
      if (originals_[i].isTensor()) {
        write(originals_[i].toTensor());
      } else if (originals_[i].isTensorList()) {
        for (const at::Tensor& tensor : originals_[i].toTensorVector()) write(tensor);
      } else if (originals_[i].isOptionalTensorList()) {
        for (const std::optional<at::Tensor>& tensor : originals_[i].toOptionalTensorVector()) {
          if (tensor) write(*tensor);
        }
      }
    }
  }

  // The argument whose alias set a result shares.
  const c10::IValue* aliased(const c10::AliasInfo& alias) const {
    for (size_t i = 0; i < originals_.size(); ++i) {
      const c10::AliasInfo* mine = schema_.arguments()[i].alias_info();
      if (mine && mine->beforeSets() == alias.beforeSets()) return &originals_[i];
    }
    return nullptr;
  }

  at::Tensor to_npu(const at::Tensor& cpu) const {
    if (!cpu.defined() || !cpu.is_cpu()) return cpu;
    for (const auto& [impl, pair] : copies_) {  // an operator may return its input without saying so
      if (pair.copy.is_same(cpu)) return pair.original;
    }
    return cpu.to(device_);
  }

  at::Tensor view_on_npu(const at::Tensor& cpu, const at::Tensor& base) const {
    if (!is_npu(base)) return cpu;
    const at::Tensor& copy = copies_.at(base.unsafeGetTensorImpl()).copy;
    TORCH_CHECK(cpu.scalar_type() == base.scalar_type() && cpu.is_alias_of(copy) && copy.strides() == base.strides(),
                "npu: ", name_of(op_),
                " is a view operator without an npu kernel, and its view cannot be rebuilt on the device; clone() "
                "the tensor first");
    const at::Tensor view = base.as_strided(cpu.sizes(), cpu.strides(),
                                            cpu.storage_offset() - copy.storage_offset() + base.storage_offset());
    view._set_conj(cpu.is_conj());
    view._set_neg(cpu.is_neg());
    return view;
  }

  void results() {
    const size_t first = stack_->size() - schema_.returns().size();
    for (size_t i = 0; i < schema_.returns().size(); ++i) {
      c10::IValue& value = (*stack_)[first + i];
      const c10::AliasInfo* alias = schema_.returns()[i].alias_info();
      const c10::IValue* source = alias ? aliased(*alias) : nullptr;
      if (source && alias->isWrite()) {
        value = *source;
      } else if (value.isTensor()) {
        value =
            source && source->isTensor() ? view_on_npu(value.toTensor(), source->toTensor()) : to_npu(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : value.toTensorVector()) {
          list.push_back(source && source->isTensor() ? view_on_npu(tensor, source->toTensor()) : to_npu(tensor));
        }
        value = std::move(list);
      }
    }
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack* stack_;
  size_t begin_ = 0;
  std::vector<c10::IValue> originals_;
  std::unordered_map<at::TensorImpl*, Pair> copies_;
  std::unordered_map<c10::StorageImpl*, at::Tensor> shared_;  // storage → the CPU's copy of its bytes, once made
  at::Device device_{c10::DeviceType::PrivateUse1};
};

// Rows of ops/fallbacks.yaml that no copy on the CPU helps: their results exist on the CPU alone.
void refuse_layouts_of_the_cpu(const std::string& name) {
  TORCH_CHECK_NOT_IMPLEMENTED(name != "aten::to_mkldnn", "npu: ", name,
                              ": the layout mkldnn is the CPU's alone; call it on the CPU");
  const bool quantized = name.starts_with("aten::") && name.find("quantize") != name.npos &&
                         name.find("fake_quantize") == name.npos && name != "aten::dequantize.self";
  TORCH_CHECK_NOT_IMPLEMENTED(!quantized, "npu: ", name, kNoQuantizedTensors);
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse_layouts_of_the_cpu(name_of(op));
  Call(op, stack).run();
}

// Whatever makes or takes a quantized tensor of the npu.
void refuse_quantized(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "npu: ", name_of(op), kNoQuantizedTensors);
}

}  // namespace

void count_fallback(const c10::OperatorHandle& op) {
  const std::string name = name_of(op);
  TORCH_CHECK_NOT_IMPLEMENTED(!options().forbid_fallback, "npu: ", name,
                              " has no npu kernel, and TORCH_NPU_FALLBACK_CPU_DISABLE=1 forbids running it on the CPU");
  bool first = false;
  {
    Counts& c = counts();
    const std::lock_guard lock(c.mutex);
    first = ++c.by_name[name] == 1;
  }
  if (first) {
    TORCH_WARN("npu: ", name,
               " has no npu kernel and runs on the CPU (slow: its tensors are copied). "
               "torch.npu.fallback_counts() counts such calls; this is said once an operator.");
  }
}

std::map<std::string, int64_t> fallback_counts() {
  const std::lock_guard lock(counts().mutex);
  return counts().by_name;
}

void reset_fallback_counts() {
  const std::lock_guard lock(counts().mutex);
  counts().by_name.clear();
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_quantized>());
}

}  // namespace npu
