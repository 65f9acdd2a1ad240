#include "torch_npu/csrc/python/redirect.h"

#include <torch/csrc/Device.h>

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace npu::redirect {
namespace {

class Ref {
 public:
  explicit Ref(PyObject* object) : object_(object) {}
  ~Ref() { Py_XDECREF(object_); }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

// A redirected function. Slots are never reused for another function: its code may be running when it is removed.
struct Slot {
  PyMethodDef* method = nullptr;  // either method …
  PyTypeObject* type = nullptr;   // … or type
  PyCFunction call = nullptr;
  newfunc make = nullptr;
  Rule rule = Rule::device;
};

constexpr size_t kSlots = 32;
std::array<Slot, kSlots> slots;

PyObject* device_object(c10::DeviceType type, c10::DeviceIndex index) {
  return THPDevice_New(c10::Device(type, index));
}

// "cuda" and "cuda:1" → "npu" and "npu:1"; "torch.cuda.FloatTensor" → "torch.npu.FloatTensor"; anything else: nothing.
std::optional<std::string> npu_name(std::string_view text) {
  constexpr std::string_view kTensorType = "torch.cuda.";
  if (text == "cuda" || text.substr(0, 5) == "cuda:") {
    return "npu" + std::string(text.substr(4));
  }
  if (text.substr(0, kTensorType.size()) == kTensorType) {
    return "torch.npu." + std::string(text.substr(kTensorType.size()));
  }
  return std::nullopt;
}

// New references, or nullptr with an exception set.
PyObject* to_npu(PyObject* value) {
  std::optional<std::string> name;
  if (THPDevice_Check(value)) {
    const c10::Device device = reinterpret_cast<THPDevice*>(value)->device;
    if (device.is_cuda()) {
      return device_object(c10::DeviceType::PrivateUse1, device.index());
    }
  } else if (PyUnicode_CheckExact(value)) {
    Py_ssize_t length = 0;
    const char* data = PyUnicode_AsUTF8AndSize(value, &length);
    if (data != nullptr) {
      name = npu_name(std::string_view(data, static_cast<size_t>(length)));
    } else {
      PyErr_Clear();  // a lone surrogate: not the name of a device
    }
  } else if (PyType_Check(value)) {
    name = npu_name(reinterpret_cast<PyTypeObject*>(value)->tp_name);  // torch.cuda.FloatTensor itself
  }
  return name ? PyUnicode_FromStringAndSize(name->data(), static_cast<Py_ssize_t>(name->size())) : Py_NewRef(value);
}

PyObject* to_cuda(PyObject* value) {
  if (PyLong_CheckExact(value)) {
    const long index = PyLong_AsLong(value);
    if (index == -1 && PyErr_Occurred() != nullptr) {
      return nullptr;
    }
    if (index < 0 || index > std::numeric_limits<c10::DeviceIndex>::max()) {
      PyErr_Format(PyExc_RuntimeError, "Device index must not be negative or above 127, got %ld", index);
      return nullptr;
    }
    return device_object(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
  }
  if (THPDevice_Check(value)) {
    const c10::Device device = reinterpret_cast<THPDevice*>(value)->device;
    if (device.is_privateuseone()) {
      return device_object(c10::DeviceType::CUDA, device.index());
    }
  }
  if (PyUnicode_CheckExact(value)) {
    const char* data = PyUnicode_AsUTF8(value);
    const std::string_view text = data != nullptr ? data : "";
    PyErr_Clear();
    if (text == "npu" || text.substr(0, 4) == "npu:") {
      return PyUnicode_FromString(("cuda" + std::string(text.substr(3))).c_str());
    }
  }
  return Py_NewRef(value);
}

PyObject* convert(Rule rule, PyObject* value) { return rule == Rule::to_cuda ? to_cuda(value) : to_npu(value); }

// set_autocast_enabled(True) and is_autocast_enabled() are about CUDA; with a device type they are about that one.
bool leaves_device_out(PyObject* args, PyObject* kwargs) {
  if (PyTuple_GET_SIZE(args) > 0 && PyUnicode_Check(PyTuple_GET_ITEM(args, 0))) {
    return false;
  }
  return kwargs == nullptr || PyDict_GetItemString(kwargs, "device_type") == nullptr;
}

PyObject* convert_args(Rule rule, PyObject* args, PyObject* kwargs) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  const Py_ssize_t extra = rule == Rule::autocast && leaves_device_out(args, kwargs) ? 1 : 0;
  PyObject* result = PyTuple_New(count + extra);
  if (result == nullptr) {
    return nullptr;
  }
  if (extra != 0) {
    PyTuple_SET_ITEM(result, 0, PyUnicode_FromString("npu"));
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* value = convert(rule, PyTuple_GET_ITEM(args, i));
    if (value == nullptr) {
      Py_DECREF(result);
      return nullptr;
    }
    PyTuple_SET_ITEM(result, i + extra, value);
  }
  return result;
}

PyObject* convert_kwargs(Rule rule, PyObject* kwargs) {
  PyObject* result = PyDict_New();
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (result != nullptr && PyDict_Next(kwargs, &position, &key, &value) != 0) {
    const Ref converted(convert(rule, value));
    if (!converted || PyDict_SetItem(result, key, converted.get()) != 0) {
      Py_CLEAR(result);
    }
  }
  return result;
}

template <class Call>
PyObject* with_converted(Rule rule, PyObject* args, PyObject* kwargs, Call call) {
  const Ref new_args(convert_args(rule, args, kwargs));
  if (!new_args) {
    return nullptr;
  }
  if (kwargs == nullptr) {
    return call(new_args.get(), nullptr);
  }
  const Ref new_kwargs(convert_kwargs(rule, kwargs));
  return new_kwargs ? call(new_args.get(), new_kwargs.get()) : nullptr;
}

template <size_t I>
PyObject* call_slot(PyObject* self, PyObject* args, PyObject* kwargs) {
  const auto call = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(slots[I].call));
  return with_converted(slots[I].rule, args, kwargs, [&](PyObject* a, PyObject* k) { return call(self, a, k); });
}

template <size_t I>
PyObject* make_slot(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return with_converted(slots[I].rule, args, kwargs,
                        [&](PyObject* a, PyObject* k) { return slots[I].make(type, a, k); });
}

template <size_t... I>
constexpr std::array<PyCFunctionWithKeywords, sizeof...(I)> calls(std::index_sequence<I...>) {
  return {&call_slot<I>...};
}

template <size_t... I>
constexpr std::array<newfunc, sizeof...(I)> makes(std::index_sequence<I...>) {
  return {&make_slot<I>...};
}

constexpr auto kCalls = calls(std::make_index_sequence<kSlots>());
constexpr auto kMakes = makes(std::make_index_sequence<kSlots>());

PyMethodDef* method_of(PyObject* target) {
  if (PyCFunction_Check(target)) {
    return reinterpret_cast<PyCFunctionObject*>(target)->m_ml;
  }
  if (Py_IS_TYPE(target, &PyMethodDescr_Type)) {
    return reinterpret_cast<PyMethodDescrObject*>(target)->d_method;
  }
  return nullptr;
}

}  // namespace

bool install(PyObject* target, Rule rule) {
  PyMethodDef* method = method_of(target);
  PyTypeObject* type = PyType_Check(target) ? reinterpret_cast<PyTypeObject*>(target) : nullptr;
  if (method == nullptr && (type == nullptr || type->tp_new == nullptr)) {
    PyErr_Format(PyExc_TypeError, "npu: %R is not a built-in function, method or type", target);
    return false;
  }
  if (method != nullptr && method->ml_flags != (METH_VARARGS | METH_KEYWORDS)) {
    PyErr_Format(PyExc_TypeError, "npu: %R does not take (*args, **kwargs)", target);
    return false;
  }
  for (size_t i = 0; i < kSlots; ++i) {
    Slot& slot = slots[i];
    const bool unused = slot.method == nullptr && slot.type == nullptr;
    if (!unused && (slot.method != method || slot.type != type)) {
      continue;
    }
    const auto call = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(kCalls[i]));
    const bool installed = method != nullptr ? method->ml_meth == call : type->tp_new == kMakes[i];
    if (installed) {
      return true;
    }
    slot.method = method;
    slot.type = type;
    slot.rule = rule;
    if (method != nullptr) {
      slot.call = std::exchange(method->ml_meth, call);
    } else {
      Py_INCREF(type);
      slot.make = std::exchange(type->tp_new, kMakes[i]);
    }
    return true;
  }
  PyErr_SetString(PyExc_RuntimeError, "npu: no slot left to redirect a function");
  return false;
}

void remove_all() {
  for (size_t i = 0; i < kSlots; ++i) {
    const auto call = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(kCalls[i]));
    if (slots[i].method != nullptr && slots[i].method->ml_meth == call) {
      slots[i].method->ml_meth = slots[i].call;
    }
    if (slots[i].type != nullptr && slots[i].type->tp_new == kMakes[i]) {
      slots[i].type->tp_new = slots[i].make;
    }
  }
}

}  // namespace npu::redirect
