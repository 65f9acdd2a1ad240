// The name under which kernels include the Matmul object: ascendc/matmul.h. What it is not: anything of its own.
#pragma once

#include "ascendc/letters.h"  // the first

#include "ascendc/matmul.h"

#include "ascendc/letters_end.h"  // the last
