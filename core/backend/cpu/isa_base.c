/* isa_base.c: the inner loops for what every processor of the kind has (SSE2 on x86-64).
 *
 * The templates do the work; isa.c takes this table only on processors that have the instructions. The loops hold no
 * state. Results are the same for every instruction set, but for transcendental functions and complex products, which
 * differ by some ulp, and matrix products, which are fused where the processor can: other products and sums of real
 * numbers are not, and sums have a fixed number of lanes. */
#define TIDE_ISA_NAME base
#define TIDE_ISA_TEXT "base"
#include "isa_table.h"
