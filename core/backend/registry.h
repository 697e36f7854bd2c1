/* registry.h: the kinds of device that this library has. Each registers itself, so no room names one. */
#pragma once

#include "backend.h"

typedef struct tide_backend_kind {
  const char *name;
  /* True: the host's own processor, which is device TIDE_CPU and always there; there is one such kind. False:
   * accelerators, of which one kind is in force at a time. */
  bool host;
  /* Whether the configuration asks for these accelerators. NULL: they are what there is when nobody asks for others. */
  bool (*wanted)(const tide_config *config);
  /* (optional) How a program asks for them; told when the accelerators that it would have cannot be used. */
  const char *hint;
  /* Gives the table, which may be closed and opened again. Fails with the reason why there can be no devices. */
  tide_status (*open)(const tide_backend **out, const tide_backend_host *host, const tide_config *config);
  struct tide_backend_kind *next;
} tide_backend_kind;

/* Puts a kind on the list when the code is loaded, before any room starts. At the end of a file of the backend. */
#define TIDE_BACKEND_REGISTER(kind)                                                                                    \
  __attribute__((constructor(200))) static void register_##kind(void) { tide__backend_register(&(kind)); }

void tide__backend_register(tide_backend_kind *kind);

/* The list; it does not change once the code is loaded. */
const tide_backend_kind *tide__backend_kinds(void);
/* That of the host, and that of the accelerators which the configuration asks for. */
const tide_backend_kind *tide__backend_kind_host(void);
const tide_backend_kind *tide__backend_kind_wanted(const tide_config *config);

/* ---- visible.c ---- */

/* Applies the text of CUDA_VISIBLE_DEVICES (NULL: not set) to the machine's devices: picked[i] becomes the machine's
 * index of visible device i. Returns how many are visible, at most `count`. */
int tide__visible(int *picked, const char *text, char (*uuid)[TIDE_UUID_TEXT], int count);
