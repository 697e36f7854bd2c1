/* share.h: a piece of host memory that other processes of the machine can open by its name. */
#ifndef TIDE_SHARE_H
#define TIDE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Says who holds it open under which number; `key` tells it from whatever has that number later. */
typedef struct tide__share {
  int32_t process, file;
  uint64_t key;
} tide__share;

/* Makes one; `file` of the name is this process's descriptor, to be closed when it is not shared any more. */
bool tide__share_new(tide__share *out, size_t bytes);
/* Opens another process's, or one's own: a descriptor of the caller's, or -1. */
int tide__share_open(const tide__share *name);
/* Is the process still running? A dead one that nobody has waited for is not. */
bool tide__share_alive(int process);

#endif
