/* accelerator.h: what the files of runtime share among themselves: the table before a device is opened, which devices
 * of the machine are visible, deferred calls. */
#ifndef TIDE_ACCELERATOR_H
#define TIDE_ACCELERATOR_H

#include "runtime.h"

/* ---- backends.c ---- */

/* The uuids of the machine's devices, without starting the driver; *count is the room before and the number after. */
tide_status tide__machine_list(char (*uuid)[TIDE_UUID_TEXT], int *count);

/* ---- visible.c ---- */

/* Applies the text of CUDA_VISIBLE_DEVICES (NULL: not set) to the machine's devices: picked[i] becomes the machine's
 * index of visible device i. Returns how many are visible, at most `count`. */
int tide__visible(int *picked, const char *text, char (*uuid)[TIDE_UUID_TEXT], int count);
/* Counts the visible devices without starting the driver. */
tide_status tide__visible_count(int *out);

/* ---- defer.c ---- */

/* What the opening of a device ends with: warns of one that is too old, runs what was deferred. */
tide_status tide__opened(int device);

#endif
