/* module.h: what tests of states share: the host knows of tide what the module has brought. Included once by each. */
#pragma once

#include <dlfcn.h>
#include <stdlib.h>

#define TIDE(name) ((__typeof__(&name))function(#name))

static const char *module;
static int failed;

static inline void *function(const char *name) {
  void *tide = dlopen(module, RTLD_NOW), *found = dlsym(tide, name);
  if (!found) exit(2);
  dlclose(tide);
  return found;
}
