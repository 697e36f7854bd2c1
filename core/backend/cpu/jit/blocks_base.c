/* blocks_base.c: the loops over lanes of the block interpreter for what every processor of the kind has.
 *
 * The template does the work; isa.c takes the table only on processors that have the instructions. */
#define TIDE_ISA_NAME base
#include "blocks_loops.h"
