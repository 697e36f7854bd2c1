/* blocks_avx512.c: the loops over lanes of the block interpreter for AVX-512.
 *
 * The template does the work; isa.c takes the table only on processors that have the instructions. */
#if defined(__x86_64__)
#  define TIDE_ISA_AVX512
#  define TIDE_ISA_NAME avx512
#  include "blocks_loops.h"
#else
typedef int tide__no_blocks_avx512;
#endif
