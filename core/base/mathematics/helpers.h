/* helpers.h: the helpers of op.def (helpers_template.h) for all types, where no guard is: the includer defines H(name),
 * a helper's name for the type whose suffix is S (i32, i64, f32, f64), HELPER and HELPER_LONG, which end here. */
#define T int32_t
#define U uint32_t
#define S i32
#include "helpers_template.h"
#undef T
#undef U
#undef S
#define T int64_t
#define U uint64_t
#define S i64
#include "helpers_template.h"
#undef T
#undef U
#undef S
#define T       float
#define F(name) name##f
#define S       f32
#include "helpers_template.h"
#undef T
#undef F
#undef S
#define T       double
#define F(name) name
#define S       f64
#include "helpers_template.h"
#undef T
#undef F
#undef S
#undef H
#undef HELPER
#undef HELPER_LONG
