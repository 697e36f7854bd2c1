/* isa_avx2.c: the inner loops for AVX2, FMA and F16C.
 *
 * The templates do the work; isa.c takes this table only on processors that have the instructions. The loops hold no
 * state. Results are the same for every instruction set, but for transcendental functions and complex products, which
 * differ by some ulp, and matrix products, which are fused where the processor can: other products and sums of real
 * numbers are not, and sums have a fixed number of lanes. */
#if defined(__x86_64__)
#  define TIDE_ISA_AVX2
#  define TIDE_ISA_NAME avx2
#  define TIDE_ISA_TEXT "avx2"
#  include "isa_table.h"
#else
typedef int tide__no_isa_avx2;
#endif
