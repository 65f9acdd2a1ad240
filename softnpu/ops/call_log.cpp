// ANYCEND_CALL_LOG=<file>: what a client passed to phase one and what it was answered, one line a call,
//   aclnnAdd(float32[2, 3], float32[3] strides [2], scalar float64 1, -> float32[2, 3]): 0
// `->` is written, `<>` read and written; an argument after the one that was refused is not known. What it is not: errors
// of phase two, which the stream logs.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "softnpu/ops/op.h"

namespace softnpu::ops {

using namespace nnopbase;

namespace {

int open_file() {
  const char* path = std::getenv("ANYCEND_CALL_LOG");
  if (!path || !*path) return -1;
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (fd < 0) std::fprintf(stderr, "ANYCEND_CALL_LOG=%s: %s; calls are not logged\n", path, std::strerror(errno));
  return fd;
}

const int file = open_file();

class Line {
 public:
  __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
    va_list args;
    va_start(args, format);
    int n = std::vsnprintf(text_ + used_, sizeof text_ - 1 - used_, format, args);
    va_end(args);
    used_ = std::min(used_ + std::max(n, 0), static_cast<int>(sizeof text_) - 2);
  }
  template <class T>
  void list(const T* values, int64_t count, const char* format) {
    add("[");
    for (int64_t i = 0; i < std::min<int64_t>(count, kShown); i++) {
      if (i) add(", ");
      add(format, values[i]);
    }
    add(count > kShown ? ", ...]" : "]");
  }
  // One write: lines of several threads and processes do not mix.
  void write() {
    text_[used_++] = '\n';
    if (::write(file, text_, used_) < 0) return;  // a full disk does not stop the client
  }

 private:
  static constexpr int kShown = 8;
  char text_[2000] = "";
  int used_ = 0;
};

void add_tensor(Line& line, const TensorCopy* t) {
  if (!t) return line.add("null");
  line.add("%s", dtype_name(t->dtype));
  line.list(reinterpret_cast<const long long*>(t->sizes()), t->ndim, "%lld");
  if (t->contiguous) return;
  line.add(" strides ");
  line.list(reinterpret_cast<const long long*>(t->strides()), t->ndim, "%lld");
}

void add_scalar(Line& line, const ScalarCopy& scalar) {
  line.add("scalar %s ", dtype_name(scalar.dtype));
  float f;
  double d;
  int64_t i = 0;
  switch (scalar.dtype) {
    case 0:
      return std::memcpy(&f, scalar.value, 4), line.add("%.9g", static_cast<double>(f));
    case 11:
      return std::memcpy(&d, scalar.value, 8), line.add("%.17g", d);
    case 12:
      return line.add("%d", scalar.value[0]);
    default:
      return std::memcpy(&i, scalar.value, 8), line.add("%#llx", static_cast<long long>(i));
    case 9:
      return std::memcpy(&i, scalar.value, 8), line.add("%lld", static_cast<long long>(i));
  }
}

void add_argument(Line& line, const Arg& a) {
  if (a.out) line.add(a.in ? "<> " : "-> ");
  switch (a.kind) {
    case Kind::kNull:
      return line.add("null");
    case Kind::kTensor:
      return add_tensor(line, a.tensor);
    case Kind::kScalar:
      return a.scalar ? add_scalar(line, *a.scalar) : line.add("null");
    case Kind::kInts:
      return line.list(reinterpret_cast<const long long*>(a.ints), a.count, "%lld");
    case Kind::kFloats:
      return line.list(a.floats, a.count, "%g");
    case Kind::kBools:
      return line.list(a.bools, a.count, "%d");
    case Kind::kScalars:
      return line.add("%u scalars", a.count);
    case Kind::kInt:
      return line.add("%lld", static_cast<long long>(a.i));
    case Kind::kDouble:
      return line.add("%.17g", a.d);
    case Kind::kString:
      return line.add("\"%s\"", a.string);
    case Kind::kTensors:
      line.add("%u tensors", a.count);
      if (a.count) line.add(" "), add_tensor(line, a.tensors[0]);
  }
}

}  // namespace

const bool watched = file >= 0 || faults_asked();

aclnnStatus Plan::finish_watched() {
  char function[200];
  std::snprintf(function, sizeof function, "%sGetWorkspaceSize", op_.name);
  const aclnnStatus fault = faults_asked() ? fault_of_call(function) : 0;
  const aclnnStatus status = fault ? fault : finish();
  if (file < 0) return status;
  Line line;
  line.add("%s(", op_.name);
  // A refused argument is the last made, and half made: not shown unless all are there.
  int known = e_ ? e_->nargs - (status && e_->nargs < op_.nargs ? 1 : 0) : 0;
  for (int i = 0; i < known; i++) {
    if (i) line.add(", ");
    add_argument(line, e_->args[i]);
  }
  line.add("%s): %d", known < op_.nargs ? ", ..." : "", status);
  line.write();
  return status;
}

}  // namespace softnpu::ops
