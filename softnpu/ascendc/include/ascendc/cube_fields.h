// The fields of TCubeTiling, in order, all int32_t: of the kernel's side (kernel_tiling/kernel_tiling.h) and of the host's (host/tiling_data.h),
// which copies its bytes. What it is not: what they mean; Matmul (matmul.h) reads those that it needs.
#pragma once

// clang-format off
#define ASCENDC_CUBE_FIELDS(F) \
  F(usedCoreNum) F(M) F(N) F(Ka) F(Kb) F(singleCoreM) F(singleCoreN) F(singleCoreK) F(baseM) F(baseN) F(baseK) \
  F(depthA1) F(depthB1) F(stepM) F(stepN) F(isBias) F(transLength) F(iterateOrder) F(shareMode) F(shareL1Size) \
  F(shareL0CSize) F(shareUbSize) F(batchM) F(batchN) F(singleBatchM) F(singleBatchN) F(stepKa) F(stepKb) \
  F(depthAL1CacheUB) F(depthBL1CacheUB) F(dbL0A) F(dbL0B) F(dbL0C) F(ALayoutInfoB) F(ALayoutInfoS) \
  F(ALayoutInfoN) F(ALayoutInfoG) F(ALayoutInfoD) F(BLayoutInfoB) F(BLayoutInfoS) F(BLayoutInfoN) F(BLayoutInfoG) \
  F(BLayoutInfoD) F(CLayoutInfoB) F(CLayoutInfoS1) F(CLayoutInfoN) F(CLayoutInfoG) F(CLayoutInfoS2) F(BatchNum) \
  F(mxTypePara)
// clang-format on
