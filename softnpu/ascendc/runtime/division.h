// Integers divided by 0 in kernels: the chips go on, an x86 processor ends the process.
#pragma once

namespace softnpu::ascendc {

// While it lives, a division by 0 on this thread gives 0 and leaves the dividend as the remainder, as 64-bit Arm has it; the smallest
// number divided by -1 stays. On Arm nothing has to be done. Not for several threads: each has its own.
class Divisions {
 public:
  Divisions() noexcept;
  ~Divisions();
  Divisions(const Divisions&) = delete;
  Divisions& operator=(const Divisions&) = delete;
  // Before a launch's blocks run: the signal's handler may have been changed since the last one.
  static void listen() noexcept;
  // Whether there was one since it began.
  bool by_zero() const noexcept;

 private:
  bool within_;  // another one's
};

}  // namespace softnpu::ascendc
