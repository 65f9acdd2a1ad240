// A name under which kernels include SIMT functions: ascendc/simt.h. What it is not: anything of its own.
#pragma once

#include "kernel_operator.h"
