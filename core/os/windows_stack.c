/* windows_stack.c: switching between stacks where the system is Windows, which has fibers for it.
 *
 * A fiber that has been left in the midst of its work cannot begin anew, so each beginning makes one. */
#ifdef _WIN32
#  include <windows.h>

#  include "stack.h"

#  pragma GCC diagnostic ignored "-Warray-bounds" /* of MinGW's GetCurrentFiber */

bool tide__os_stacks_new(char **out, unsigned n, size_t bytes) {
  *out = NULL; /* each fiber has its own */
  return true;
}

void tide__os_stacks_free(char *stacks, unsigned n, size_t bytes) { (void)stacks, (void)n, (void)bytes; }

static VOID CALLBACK begin(void *entry) {
  void (*function)(void);
  memcpy(&function, &entry, sizeof function);
  function();
}

bool tide__os_place_begin(tide__os_place *place, char *top, size_t bytes, void (*entry)(void)) {
  void *address;
  memcpy(&address, &entry, sizeof address);
  tide__os_place_end(place);
  *place = CreateFiberEx(16384, bytes, FIBER_FLAG_FLOAT_SWITCH, begin, address);
  return *place != NULL;
}

void tide__os_place_end(tide__os_place *place) {
  if (*place) DeleteFiber(*place);
  *place = NULL;
}

static _Thread_local int entered; /* times that this thread became a fiber for us */

bool tide__os_place_enter(tide__os_place *own) {
  bool is_fiber = IsThreadAFiber();
  *own = is_fiber ? GetCurrentFiber() : ConvertThreadToFiberEx(NULL, FIBER_FLAG_FLOAT_SWITCH);
  if (*own && (entered || !is_fiber)) entered++;
  return *own != NULL;
}

void tide__os_place_leave(const tide__os_place *own) {
  if (entered && --entered == 0) ConvertFiberToThread();
}

void tide__os_switch(void *to) { SwitchToFiber(to); }
#endif
