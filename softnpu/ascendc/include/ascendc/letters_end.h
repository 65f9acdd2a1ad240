// See letters.h.
// clang-format off
#define ASCENDC_PRAGMA(text) _Pragma(#text)
ASCENDC_PRAGMA(pop_macro("A")) ASCENDC_PRAGMA(pop_macro("B")) ASCENDC_PRAGMA(pop_macro("C"))
ASCENDC_PRAGMA(pop_macro("D")) ASCENDC_PRAGMA(pop_macro("E")) ASCENDC_PRAGMA(pop_macro("F"))
ASCENDC_PRAGMA(pop_macro("G")) ASCENDC_PRAGMA(pop_macro("H")) ASCENDC_PRAGMA(pop_macro("I"))
ASCENDC_PRAGMA(pop_macro("J")) ASCENDC_PRAGMA(pop_macro("K")) ASCENDC_PRAGMA(pop_macro("L"))
ASCENDC_PRAGMA(pop_macro("M")) ASCENDC_PRAGMA(pop_macro("N")) ASCENDC_PRAGMA(pop_macro("O"))
ASCENDC_PRAGMA(pop_macro("P")) ASCENDC_PRAGMA(pop_macro("Q")) ASCENDC_PRAGMA(pop_macro("R"))
ASCENDC_PRAGMA(pop_macro("S")) ASCENDC_PRAGMA(pop_macro("T")) ASCENDC_PRAGMA(pop_macro("U"))
ASCENDC_PRAGMA(pop_macro("V")) ASCENDC_PRAGMA(pop_macro("W")) ASCENDC_PRAGMA(pop_macro("X"))
ASCENDC_PRAGMA(pop_macro("Y")) ASCENDC_PRAGMA(pop_macro("Z")) ASCENDC_PRAGMA(pop_macro("a"))
ASCENDC_PRAGMA(pop_macro("b")) ASCENDC_PRAGMA(pop_macro("c")) ASCENDC_PRAGMA(pop_macro("d"))
ASCENDC_PRAGMA(pop_macro("e")) ASCENDC_PRAGMA(pop_macro("f")) ASCENDC_PRAGMA(pop_macro("g"))
ASCENDC_PRAGMA(pop_macro("h")) ASCENDC_PRAGMA(pop_macro("i")) ASCENDC_PRAGMA(pop_macro("j"))
ASCENDC_PRAGMA(pop_macro("k")) ASCENDC_PRAGMA(pop_macro("l")) ASCENDC_PRAGMA(pop_macro("m"))
ASCENDC_PRAGMA(pop_macro("n")) ASCENDC_PRAGMA(pop_macro("o")) ASCENDC_PRAGMA(pop_macro("p"))
ASCENDC_PRAGMA(pop_macro("q")) ASCENDC_PRAGMA(pop_macro("r")) ASCENDC_PRAGMA(pop_macro("s"))
ASCENDC_PRAGMA(pop_macro("t")) ASCENDC_PRAGMA(pop_macro("u")) ASCENDC_PRAGMA(pop_macro("v"))
ASCENDC_PRAGMA(pop_macro("w")) ASCENDC_PRAGMA(pop_macro("x")) ASCENDC_PRAGMA(pop_macro("y"))
ASCENDC_PRAGMA(pop_macro("z"))
#undef ASCENDC_PRAGMA
    // clang-format on
