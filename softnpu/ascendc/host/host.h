// What the host side of an operator package includes, under the toolkit's names (compiler/package.py has their list): OpDef, tiling
// structs, contexts, the platform. What it is not: the kernel's side, which is include/kernel_operator.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "context.h"
#include "graph.h"
#include "matmul_tiling.h"
#include "op_def.h"
#include "platform.h"
#include "tiling_data.h"
