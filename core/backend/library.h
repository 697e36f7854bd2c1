/* library.h: libraries that are opened at run time, as library.def lists them. Of each there is a struct tide__<id> of
 * its functions and a number TIDE__LIBRARY_<id>. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ncclUniqueId, which is passed by value. */
typedef struct tide__nccl_id {
  char bytes[128];
} tide__nccl_id;

#define LIBRARY(id, title, place, names, missing, older) typedef struct tide__##id {
#define CALL(member, symbol, result, arguments)          result(*member) arguments;
#define FOUR(member, names, result, arguments)           result(*member[4]) arguments;
#define END(id)                                                                                                        \
  }                                                                                                                    \
  tide__##id;
#include "library.def"

typedef enum tide__library {
#define LIBRARY(id, title, place, names, missing, older) TIDE__LIBRARY_##id,
#define CALL(member, symbol, result, arguments)
#define END(id)
#include "library.def"
  TIDE__LIBRARIES
} tide__library;

/* Opens the library and fills `calls`, its struct, which is filled for good. False: `problem` says what is missing and
 * what to install. To be called once; an open library stays until the process ends. */
bool tide__library_open(void *calls, tide__library which, char *problem, size_t size);
