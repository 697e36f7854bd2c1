/* stack.h: several stacks on one thread, and going from one to another. Private to core.
 *
 * A switch saves what a call keeps and changes stacks: a few instructions on x86-64, swapcontext on other POSIX
 * systems, a fiber on Windows, which brings its own stack. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The sanitizers follow calls on the stack that they know; these functions change it. */
#define TIDE_OS_UNWATCHED __attribute__((no_sanitize("address", "thread", "undefined")))

/* n stacks of `bytes` each, side by side, a page that nobody may touch at the lower end of each. */
bool tide__os_stacks_new(char **out, unsigned n, size_t bytes);
void tide__os_stacks_free(char *stacks, unsigned n, size_t bytes);

/* A place is where a stack goes on. Zeros are none. */
#ifdef _WIN32
typedef void *tide__os_place;

/* The first switch to it calls entry, which does not return. False: no memory. */
bool tide__os_place_begin(tide__os_place *place, char *top, size_t bytes, void (*entry)(void));
void tide__os_place_end(tide__os_place *place);
/* This thread's own stack, as a place for others to switch to (false: no memory), and the end of that. */
bool tide__os_place_enter(tide__os_place *own);
void tide__os_place_leave(const tide__os_place *own);
void tide__os_switch(void *to);
static inline void tide__os_change(tide__os_place *from, tide__os_place *to) { tide__os_switch(*to); }

#else
#  if defined(__x86_64__) && defined(__ELF__)

typedef void *tide__os_place; /* the stack pointer */
void tide__os_switch(void **from, void *to);
static inline TIDE_OS_UNWATCHED void tide__os_change(tide__os_place *from, tide__os_place *to) {
  tide__os_switch(from, *to);
}

/* As if entry had been called from nowhere: its address is what the first switch returns to. */
static inline TIDE_OS_UNWATCHED bool tide__os_place_begin(tide__os_place *place, char *top, size_t bytes,
                                                          void (*entry)(void)) {
  void **word = (void **)(void *)top;
  word[-1] = NULL;
  memcpy(&word[-2], &entry, sizeof entry);
  for (int k = 3; k <= 8; k++) word[-k] = NULL;
  *place = &word[-8];
  return true;
}

#  else
#    include <ucontext.h>

typedef ucontext_t tide__os_place;
static inline TIDE_OS_UNWATCHED void tide__os_change(tide__os_place *from, tide__os_place *to) {
  swapcontext(from, to);
}

static inline TIDE_OS_UNWATCHED bool tide__os_place_begin(tide__os_place *place, char *top, size_t bytes,
                                                          void (*entry)(void)) {
  getcontext(place);
  place->uc_stack.ss_sp = top - bytes, place->uc_stack.ss_size = bytes;
  place->uc_link = NULL;
  makecontext(place, entry, 0);
  return true;
}
#  endif

static inline void tide__os_place_end(tide__os_place *place) { (void)place; }
static inline bool tide__os_place_enter(tide__os_place *own) { return own != NULL; }
static inline void tide__os_place_leave(const tide__os_place *own) { (void)own; }
#endif
