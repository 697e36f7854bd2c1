/* other_abi.c: for the specs of LuaJIT's FFI: loaded ahead of libtide (LD_PRELOAD), it says that libtide was built with
 * other headers. OTHER_ABI tells how:
 *   abi              TIDE_ABI is 99
 *   NUMBER BYTES     the mark of that number, counted from 0, has this value
 *   fewer            the last mark is missing
 *   named NUMBER     the mark of that number is of another name
 * The build defines LIBTIDE, the soname. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tide/abi.h"

static tide_abi_mark changed[4096];

int tide_abi(const tide_abi_mark **marks, size_t *count) {
  void *libtide = dlopen(LIBTIDE, RTLD_LAZY | RTLD_NOLOAD); /* the module has opened it */
  int (*real)(const tide_abi_mark **, size_t *) =
      (int (*)(const tide_abi_mark **, size_t *))(size_t)dlsym(libtide, "tide_abi");
  const char *how = getenv("OTHER_ABI");
  unsigned at, value;
  int abi = real(marks, count);
  if (*count > sizeof changed / sizeof *changed) abort();
  memcpy(changed, *marks, *count * sizeof *changed);
  *marks = changed;
  if (!strcmp(how, "abi")) abi = 99;
  if (!strcmp(how, "fewer")) --*count;
  if (sscanf(how, "named %u", &at) == 1) changed[at].name++;
  if (sscanf(how, "%u %u", &at, &value) == 2) changed[at].value = (uint16_t)value;
  return abi;
}
