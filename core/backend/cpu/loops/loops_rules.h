/* loops_rules.h: which loops the rules of op.def have: of integers, floats and complex numbers, and whether they test,
 * so that they write integers of the operands' width. Rare complex ones are in the base instruction set alone. */
#pragma once

#if defined(TIDE_ISA_AVX2) || defined(TIDE_ISA_AVX512)
#  define LOOP_RARE_C 0
#else
#  define LOOP_RARE_C 1
#endif
#define LOOP_RULE_FLOAT   0, 1, 0, 0
#define LOOP_RULE_FLOATC  0, 1, 1, 0
#define LOOP_RULE_EXACT   0, 1, 0, 0
#define LOOP_RULE_MATHC   0, 1, LOOP_RARE_C, 0
#define LOOP_RULE_REAL    1, 1, 0, 0
#define LOOP_RULE_DIVIDE  1, 1, 0, 0
#define LOOP_RULE_REALC   1, 1, LOOP_RARE_C, 0
#define LOOP_RULE_ARITHC  1, 1, 1, 0
#define LOOP_RULE_BITS    1, 0, 0, 0
#define LOOP_RULE_TEST    1, 1, LOOP_RARE_C, 1
#define LOOP_RULE_COMPARE 1, 1, 0, 1
#define LOOP_RULE_EQUALC  1, 1, 1, 1
#define LOOP_RULE_CLOSE   0, 1, LOOP_RARE_C, 1
#define LOOP_RULE_LOGIC   1, 1, LOOP_RARE_C, 1

#define LOOP_PICK_I(...)               LOOP_PICK_I_(__VA_ARGS__)
#define LOOP_PICK_F(...)               LOOP_PICK_F_(__VA_ARGS__)
#define LOOP_PICK_C(...)               LOOP_PICK_C_(__VA_ARGS__)
#define LOOP_PICK_TEST(...)            LOOP_PICK_TEST_(__VA_ARGS__)
#define LOOP_PICK_I_(i, f, c, test)    i
#define LOOP_PICK_F_(i, f, c, test)    f
#define LOOP_PICK_C_(i, f, c, test)    c
#define LOOP_PICK_TEST_(i, f, c, test) test
