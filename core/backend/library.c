/* library.c: opens the libraries of library.def, each at the first call that needs it.
 *
 * A newer name is preferred to an older one. This file is part of libtide and of libtide_cuda, which share no symbols.
 *
 * Invariant: a struct of functions is an array of pointers to functions in the order of library.def, of which FOUR has
 * four; so its symbols are a list in that order, and no member is named here. */
#include "library.h"

#include <stdio.h>
#include <string.h>

#include "os/os.h"

enum { PLACE_LOADER, PLACE_CUDA };
static const struct {
  const char *title, *names, *missing, *older;
  int place;
} libraries[] = {
#define LIBRARY(id, title, place, names, missing, older) {title, names, missing, older, PLACE_##place},
#define CALL(member, symbol, result, arguments)
#define END(id)
#include "library.def"
};

/* One after the other, each with a zero behind it, those of a library with another one behind them: no array of
 * pointers, because each costs a shared library 32 bytes. */
static const struct {
#define LIBRARY(id, title, place, names, missing, older) char id[sizeof(""
#define CALL(member, symbol, result, arguments) symbol "\0"
#define FOUR(member, names, result, arguments)  names "\0"
#define END(id) )];
#include "library.def"
} symbols = {
#define LIBRARY(id, title, place, names, missing, older) ""
#define CALL(member, symbol, result, arguments)          symbol "\0"
#define FOUR(member, names, result, arguments)           names "\0"
#define END(id)                                          ,
#include "library.def"
};

static void *open_in(const char *folder, size_t length, const char *name) {
  char path[1024];
  if (snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, name) >= (int)sizeof path) return NULL;
  return tide__os_library(path, false);
}

static void *open_name(const char *name, int place) {
  void *library = NULL;
  for (const char *p = place == PLACE_CUDA ? getenv("TIDE_CUDA_LIBRARY_PATH") : NULL; p && *p && !library;) {
    size_t length = strcspn(p, ":");
    if (length) library = open_in(p, length, name);
    p += length + (p[length] == ':');
  }
  if (!library) library = tide__os_library(name, false);
  if (!library && place == PLACE_CUDA) library = open_in("/usr/local/cuda/lib64", 21, name);
  return library;
}

/* "$NAME " before the names: a variable of the environment, whose value replaces them. */
static void *open_any(const char *names, int place) {
  char name[64];
  void *library = NULL;
  if (*names == '$') {
    size_t length = strcspn(names, " ");
    snprintf(name, sizeof name, "%.*s", (int)length - 1, names + 1);
    const char *chosen = getenv(name);
    if (chosen && *chosen) return open_name(chosen, place);
    names += length + 1;
  }
  while (*names && !library) {
    size_t length = strcspn(names, " ");
    snprintf(name, sizeof name, "%.*s", (int)length, names);
    library = open_name(name, place);
    names += length + (names[length] == ' ');
  }
  return library;
}

bool tide__library_open(void *calls, tide__library which, char *problem, size_t size) {
  const char *symbol = (const char *)&symbols, *title = libraries[which].title;
  for (int skip = (int)which; skip; symbol += strlen(symbol) + 1) skip -= !*symbol;
  void *library = open_any(libraries[which].names, libraries[which].place);
  if (!library) {
    snprintf(problem, size, "%s %s: %s", title, libraries[which].missing, tide__os_library_problem());
    return false;
  }
  for (char *to = calls; *symbol; symbol += strlen(symbol) + 1, to += sizeof(void *)) {
    void *found = tide__os_symbol(library, symbol);
    if (!found) {
      snprintf(problem, size, "%s lacks %s, %s", title, symbol, libraries[which].older);
      return false;
    }
    memcpy(to, &found, sizeof found);
  }
  return true;
}
