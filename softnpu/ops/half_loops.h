// The loops of half.h in a processor's own instructions: half_x86.cpp, half_arm.cpp. Called by half.h and half.cpp.
#pragma once

#include <cstdint>

namespace softnpu::ops::kernels {

// Are there such instructions? The loops want them.
bool converts_halves();
void widen_halves(const uint16_t* from, float* to, int64_t n);
// To the nearest half, ties to the even one.
void narrow_floats(const float* from, uint16_t* to, int64_t n);

}  // namespace softnpu::ops::kernels
