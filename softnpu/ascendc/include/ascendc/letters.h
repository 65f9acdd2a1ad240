// Macros of one letter that a kernel defines before it includes the API (-DN=1024): the API's headers are read without them, and
// letters_end.h brings them back. No `#pragma once`: each header that kernels include has both.
// clang-format off
#define ASCENDC_PRAGMA(text) _Pragma(#text)
ASCENDC_PRAGMA(push_macro("A")) ASCENDC_PRAGMA(push_macro("B")) ASCENDC_PRAGMA(push_macro("C"))
ASCENDC_PRAGMA(push_macro("D")) ASCENDC_PRAGMA(push_macro("E")) ASCENDC_PRAGMA(push_macro("F"))
ASCENDC_PRAGMA(push_macro("G")) ASCENDC_PRAGMA(push_macro("H")) ASCENDC_PRAGMA(push_macro("I"))
ASCENDC_PRAGMA(push_macro("J")) ASCENDC_PRAGMA(push_macro("K")) ASCENDC_PRAGMA(push_macro("L"))
ASCENDC_PRAGMA(push_macro("M")) ASCENDC_PRAGMA(push_macro("N")) ASCENDC_PRAGMA(push_macro("O"))
ASCENDC_PRAGMA(push_macro("P")) ASCENDC_PRAGMA(push_macro("Q")) ASCENDC_PRAGMA(push_macro("R"))
ASCENDC_PRAGMA(push_macro("S")) ASCENDC_PRAGMA(push_macro("T")) ASCENDC_PRAGMA(push_macro("U"))
ASCENDC_PRAGMA(push_macro("V")) ASCENDC_PRAGMA(push_macro("W")) ASCENDC_PRAGMA(push_macro("X"))
ASCENDC_PRAGMA(push_macro("Y")) ASCENDC_PRAGMA(push_macro("Z")) ASCENDC_PRAGMA(push_macro("a"))
ASCENDC_PRAGMA(push_macro("b")) ASCENDC_PRAGMA(push_macro("c")) ASCENDC_PRAGMA(push_macro("d"))
ASCENDC_PRAGMA(push_macro("e")) ASCENDC_PRAGMA(push_macro("f")) ASCENDC_PRAGMA(push_macro("g"))
ASCENDC_PRAGMA(push_macro("h")) ASCENDC_PRAGMA(push_macro("i")) ASCENDC_PRAGMA(push_macro("j"))
ASCENDC_PRAGMA(push_macro("k")) ASCENDC_PRAGMA(push_macro("l")) ASCENDC_PRAGMA(push_macro("m"))
ASCENDC_PRAGMA(push_macro("n")) ASCENDC_PRAGMA(push_macro("o")) ASCENDC_PRAGMA(push_macro("p"))
ASCENDC_PRAGMA(push_macro("q")) ASCENDC_PRAGMA(push_macro("r")) ASCENDC_PRAGMA(push_macro("s"))
ASCENDC_PRAGMA(push_macro("t")) ASCENDC_PRAGMA(push_macro("u")) ASCENDC_PRAGMA(push_macro("v"))
ASCENDC_PRAGMA(push_macro("w")) ASCENDC_PRAGMA(push_macro("x")) ASCENDC_PRAGMA(push_macro("y"))
ASCENDC_PRAGMA(push_macro("z"))
#undef A
#undef B
#undef C
#undef D
#undef E
#undef F
#undef G
#undef H
#undef I
#undef J
#undef K
#undef L
#undef M
#undef N
#undef O
#undef P
#undef Q
#undef R
#undef S
#undef T
#undef U
#undef V
#undef W
#undef X
#undef Y
#undef Z
#undef a
#undef b
#undef c
#undef d
#undef e
#undef f
#undef g
#undef h
#undef i
#undef j
#undef k
#undef l
#undef m
#undef n
#undef o
#undef p
#undef q
#undef r
#undef s
#undef t
#undef u
#undef v
#undef w
#undef x
#undef y
#undef z
#undef ASCENDC_PRAGMA
    // clang-format on
