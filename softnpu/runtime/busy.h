// How long the devices' executors work, for npu-smi and aclrtGetDeviceUtilizationRate: a word a device in the registry, stored when
// the first of the process's threads begins on the device and when the last one ends. What it is not: a profile of tasks.
// What counts: kernels and copies that wait in a stream and are run by its executor or by who waits for it. What does not: tiny tasks
// that their caller runs at once (a clock read costs as much as they do), and waiting: for another stream, for other ranks, host callbacks.
// Cost: two clock reads and two uncontended locks a stretch of work, and a stretch holds all that a stream has ready. None a task.
// Who uses it: stream.cpp. Its lock comes before the registry's; it is not held while a task runs.
#pragma once

namespace softnpu {

class Stretch {
 public:
  explicit Stretch(int device) noexcept : device_(device) {}
  Stretch(const Stretch&) = delete;
  ~Stretch() { rest(); }

  void work() noexcept {
    if (!working_) begin();
  }
  void rest() noexcept {
    if (working_) end();
  }

 private:
  void begin() noexcept;
  void end() noexcept;

  const int device_;  // its index in the process
  bool working_ = false;
};

}  // namespace softnpu
