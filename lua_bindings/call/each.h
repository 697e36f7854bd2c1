/* each.h: lists that are written as the names in them. */
#pragma once

#include "bindings.h"

/* clang-format off */
/* F(with, name), for each name, up to 24: a step puts one down and the next step behind it, which is gone through again
 * until none is left. */
#define LTIDE_EACH(F, with, ...) LTIDE_STEPS_3(LTIDE_STEP(F, with, __VA_ARGS__))
#define LTIDE_STEP(F, with, name, ...) F(with, name), __VA_OPT__(LTIDE_NEXT LTIDE_CALL (F, with, __VA_ARGS__))
#define LTIDE_NEXT() LTIDE_STEP
#define LTIDE_CALL ()
#define LTIDE_STEPS_3(...) LTIDE_STEPS_2(LTIDE_STEPS_2(LTIDE_STEPS_2(LTIDE_STEPS_2(__VA_ARGS__))))
#define LTIDE_STEPS_2(...) LTIDE_STEPS_1(LTIDE_STEPS_1(LTIDE_STEPS_1(LTIDE_STEPS_1(LTIDE_STEPS_1(__VA_ARGS__)))))
#define LTIDE_STEPS_1(...) __VA_ARGS__

/* What chunks are given (script.h): the functions script_NAME under these names. */
#define LTIDE_SCRIPT(...) {LTIDE_EACH(LTIDE_SCRIPT_FUNCTION, script_, __VA_ARGS__) {NULL, NULL}}
#define LTIDE_SCRIPT_FUNCTION(prefix, name) {#name, prefix##name}
/* Gives them to the chunks under the name of the C file, "ROOM/NAME.c". */
#define LTIDE_GIVE(L, file, ...)                                                                                       \
  do {                                                                                                                 \
    static const luaL_Reg list[] = LTIDE_SCRIPT(__VA_ARGS__);                                                         \
    ltide_script_give(L, file, list);                                                                                  \
  } while (0)
/* Metamethods: PREFIXgc is __gc. */
#define LTIDE_META(prefix, ...) {LTIDE_EACH(LTIDE_META_FUNCTION, prefix, __VA_ARGS__) {NULL, NULL}}
#define LTIDE_META_FUNCTION(prefix, name) {"__" #name, prefix##name}
/* clang-format on */
